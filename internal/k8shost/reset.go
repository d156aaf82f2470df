package k8shost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/controlplane"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// reset makes this server the only member of its cluster, with its own data or a snapshot's. It ends when that is
// done; the server is then started without --cluster-reset.
func (s *server) reset(ctx context.Context) error {
	if !s.embeddedEtcd() {
		return errors.New("--cluster-reset is for the embedded etcd, and this server uses another datastore")
	}
	if snapshot := s.config.ClusterResetRestorePath; snapshot != "" {
		return s.restore(ctx, snapshot)
	}
	if !s.hasEtcdData() {
		return fmt.Errorf("--cluster-reset: there is no etcd data in %s; to bring a cluster back from a snapshot, give --cluster-reset-restore-path",
			s.dir.EtcdData())
	}
	if err := s.prepareSecrets(ctx); err != nil {
		return err
	}
	if err := s.forgetOtherMembers(ctx); err != nil {
		return err
	}
	s.log.Info("this server is now the only member of its cluster; start it without --cluster-reset. " +
		"On every other server, remove the data directory's server/db/etcd before it joins again")
	return nil
}

// restore puts a snapshot in the place of the cluster's data. On a host that has lost everything, the cluster's
// authorities come out of the snapshot too, opened with the token.
func (s *server) restore(ctx context.Context, snapshot string) error {
	if err := etcd.Verify(snapshot); err != nil {
		return fmt.Errorf("--cluster-reset-restore-path: %w", err)
	}
	if err := s.authoritiesFrom(snapshot); err != nil {
		return err
	}
	s.config.ServerURL = ""
	if err := s.prepareSecrets(ctx); err != nil {
		return err
	}
	etcdutl, err := s.release.Binary("etcdutl")
	if err != nil {
		return err
	}
	name, err := s.memberName()
	if err != nil {
		return err
	}
	kept, err := etcd.Restore(ctx, etcdutl, snapshot, s.dir.EtcdData(), name, s.plane.EtcdPeerURL(), time.Now())
	if err != nil {
		return err
	}
	if kept != "" {
		s.log.Info("the data from before is kept", "directory", kept)
	}
	s.log.Info("snapshot restored; start the server without --cluster-reset. " +
		"On every other server, remove the data directory's server/db/etcd before it joins again")
	return nil
}

func (s *server) authoritiesFrom(snapshot string) error {
	initialized, err := s.pki.Initialized()
	if err != nil || initialized {
		return err
	}
	given, err := s.givenToken()
	if err != nil {
		return err
	}
	if !given.JoinsServers() {
		return errors.New("this data directory has no certificates, and those in the snapshot are sealed: give the cluster's own --token (K10…::server:…)")
	}
	sealed, err := etcd.BootstrapIn(snapshot)
	if err != nil {
		return err
	}
	plain, err := token.Open(given.Password(), sealed)
	if err != nil {
		return fmt.Errorf("open the certificates in the snapshot with --token: %w", err)
	}
	bundle, err := pki.UnmarshalBundle(plain)
	if err != nil {
		return err
	}
	return pki.WriteBundle(s.pki.Dir(), bundle)
}

// forgetOtherMembers runs etcd once so that it makes a new cluster of the data it has.
func (s *server) forgetOtherMembers(ctx context.Context) error {
	name, err := s.memberName()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.joiningFile()); err != nil {
		return err
	}
	s.config.EtcdArgs = append(s.config.EtcdArgs, "force-new-cluster=true")
	store := s.plane.Datastore(controlplane.EtcdMembership{Name: name, Initial: map[string]string{name: s.plane.EtcdPeerURL()}})
	startCtx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	manager := component.NewManager(s.log, component.Stage(store.Components))
	return errors.Join(manager.Start(startCtx), manager.Stop(ctx))
}
