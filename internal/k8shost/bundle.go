package k8shost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/controlplane"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// What the servers of a cluster share is in their files and, sealed, in etcd, where it is part of every snapshot. It is
// the same for ever but for the keys that encrypt Secrets. Those in etcd are the cluster's: a server takes them from there
// before its API server starts, and whenever they change.

// sharedKeys keeps this server's keys for Secrets those of the cluster.
func (s *server) sharedKeys() component.Component {
	if !s.embeddedEtcd() {
		return component.NewRoutine("shared-keys", s.log, nil, nil)
	}
	adopt := s.withEtcd(s.adoptKeys)
	// An etcd that has just come up may still be without a leader.
	setup := func(ctx context.Context) error { return component.Poll(ctx, adopt) }
	return component.NewRoutine("shared-keys", s.log, setup, s.withEtcd(s.followKeys))
}

func (s *server) withEtcd(do func(context.Context, *clientv3.Client) error) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := localEtcd(s.pki)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		return do(ctx, client)
	}
}

func localEtcd(store *pki.Store) (*clientv3.Client, error) {
	return etcd.Connect(etcdCredentials(store), controlplane.EtcdClientURL("127.0.0.1"))
}

// followKeys adopts keys when they change.
func (s *server) followKeys(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := client.Watch(clientv3.WithRequireLeader(ctx), etcd.BootstrapKey)
	// What changed between the start and the watch.
	if err := s.adoptKeys(ctx, client); err != nil {
		return err
	}
	for change := range changes {
		if err := change.Err(); err != nil {
			return fmt.Errorf("watch the cluster's keys: %w", err)
		}
		if err := s.adoptKeys(ctx, client); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// adoptKeys takes over the cluster's keys for Secrets, unless they are those that it took last.
func (s *server) adoptKeys(ctx context.Context, client *clientv3.Client) error {
	s.bundle.Lock()
	defer s.bundle.Unlock()
	_, _, err := s.adopt(ctx, client)
	return err
}

// adopt does it, and returns what is in etcd.
func (s *server) adopt(ctx context.Context, client *clientv3.Client) (sealed []byte, revision int64, err error) {
	sealed, revision, err = etcd.Bootstrap(ctx, client)
	if err != nil || sealed == nil || s.dir.Adopted() == digest(sealed) {
		return sealed, revision, err
	}
	cluster, err := openBundle(s.token, sealed)
	if err != nil {
		// Sealed with a token that was given up; storeBundle replaces it.
		s.log.Warn("cannot open the cluster's sealed secrets; going on with this server's own", "error", err)
		return sealed, revision, nil
	}
	changed, err := pki.AdoptEncryption(s.pki.Dir(), cluster)
	if err != nil {
		return sealed, revision, err
	}
	if changed {
		s.log.Info("took over the cluster's keys for Secrets")
	}
	return sealed, revision, s.dir.RecordAdopted(digest(sealed))
}

// storeBundle puts what is in this server's files into etcd, where that differs.
func (s *server) storeBundle(ctx context.Context, client *clientv3.Client) error {
	s.bundle.Lock()
	defer s.bundle.Unlock()
	for {
		sealed, revision, err := s.adopt(ctx, client)
		if err != nil {
			return err
		}
		bundle, err := pki.ReadBundle(s.pki.Dir())
		if err != nil {
			return err
		}
		if stored, err := openBundle(s.token, sealed); err == nil && stored.Equal(bundle) {
			return nil
		}
		if sealed, err = sealBundle(s.token, bundle); err != nil {
			return err
		}
		err = etcd.PutBootstrap(ctx, client, sealed, revision)
		if errors.Is(err, etcd.ErrChanged) {
			continue // by another server: its keys come first
		}
		if err != nil {
			return err
		}
		return s.dir.RecordAdopted(digest(sealed))
	}
}

func openBundle(t token.Token, sealed []byte) (*pki.Bundle, error) {
	plain, err := token.Open(t.Password(), sealed)
	if err != nil {
		return nil, err
	}
	return pki.UnmarshalBundle(plain)
}

func sealBundle(t token.Token, bundle *pki.Bundle) ([]byte, error) {
	plain, err := bundle.Marshal()
	if err != nil {
		return nil, err
	}
	return token.Seal(t.Password(), plain)
}

func digest(sealed []byte) string {
	sum := sha256.Sum256(sealed)
	return hex.EncodeToString(sum[:])
}
