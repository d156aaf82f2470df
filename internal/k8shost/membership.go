package k8shost

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/controlplane"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// membership decides how this server's etcd starts: with what it has on disk, as the first of a new cluster, or as a
// new member of the cluster that the server joins.
func (s *server) membership(ctx context.Context) (controlplane.EtcdMembership, error) {
	if s.config.ServerURL != "" {
		if err := s.checkSettings(ctx); err != nil {
			return controlplane.EtcdMembership{}, err
		}
	}
	if !s.embeddedEtcd() {
		return controlplane.EtcdMembership{}, nil
	}
	if err := s.forgetUnfinishedJoin(); err != nil {
		return controlplane.EtcdMembership{}, err
	}
	name, err := s.memberName()
	if err != nil {
		return controlplane.EtcdMembership{}, err
	}
	own := controlplane.EtcdMembership{Name: name, Initial: map[string]string{name: s.plane.EtcdPeerURL()}}
	if s.hasEtcdData() || s.config.ServerURL == "" {
		return own, nil
	}
	return s.joinEtcd(ctx, own)
}

func (s *server) hasEtcdData() bool {
	_, err := os.Stat(filepath.Join(s.dir.EtcdData(), "member"))
	return err == nil
}

func (s *server) joiningFile() string { return s.dir.Path("server", "db", "etcd-joining") }

// forgetUnfinishedJoin clears the data of a member that was cut off before it became a full one: what it has is not
// the cluster's state yet, and joining again is cheap.
func (s *server) forgetUnfinishedJoin() error {
	if _, err := os.Stat(s.joiningFile()); err != nil {
		return nil
	}
	s.log.Warn("the last start was cut off while joining; joining again")
	return errors.Join(os.RemoveAll(s.dir.EtcdData()), os.Remove(s.joiningFile()))
}

// memberName is this server's name in etcd: the node's with a random end, as a server that lost its data must not
// come back under the name of the member that it was.
func (s *server) memberName() (string, error) {
	file := s.dir.Path("server", "db", "etcd-name")
	if content, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(content)), nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	name := s.config.NodeName + "-" + hex.EncodeToString(random)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	return name, atomicfile.Write(file, []byte(name+"\n"), 0o600)
}

func (s *server) joinEtcd(ctx context.Context, own controlplane.EtcdMembership) (controlplane.EtcdMembership, error) {
	client, err := s.etcdOfOthers(ctx)
	if err != nil {
		return own, err
	}
	defer func() { _ = client.Close() }()
	if err := atomicfile.Write(s.joiningFile(), nil, 0o600); err != nil {
		return own, err
	}
	own.Joining = true
	// Members join one at a time; another server may be at it just now.
	err = component.Poll(ctx, func(ctx context.Context) error {
		initial, err := etcd.Join(ctx, client, own.Name, s.plane.EtcdPeerURL())
		own.Initial = initial
		return err
	})
	own.Await = s.becomeFullMember
	return own, err
}

// becomeFullMember ends a join: the new member has caught up and votes from now on.
func (s *server) becomeFullMember(ctx context.Context) error {
	if _, err := os.Stat(s.joiningFile()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	client, err := s.etcdOfOthers(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := etcd.Promote(ctx, client, s.plane.EtcdPeerURL()); err != nil {
		return err
	}
	return os.Remove(s.joiningFile())
}

// etcdOfOthers connects to the etcd members of the servers that the cluster's API names.
func (s *server) etcdOfOthers(ctx context.Context) (*clientv3.Client, error) {
	api, err := s.clusterAPI()
	if err != nil {
		return nil, err
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	slices, err := api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: "kubernetes"}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("ask %s for the cluster's servers: %w", s.config.ServerURL, err)
	}
	var endpoints []string
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				if address != s.config.AdvertiseAddress.String() {
					endpoints = append(endpoints, controlplane.EtcdClientURL(address))
				}
			}
		}
	}
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("%s names no other server", s.config.ServerURL)
	}
	return etcd.Connect(etcdCredentials(s.pki), endpoints...)
}

// clusterAPI is a client of the server that this one joins, with the launcher's own identity.
func (s *server) clusterAPI() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host:    s.config.ServerURL,
		Timeout: 15 * time.Second,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: s.pki.CAPath(pki.ClusterCA), CertFile: s.pki.CertPath(pki.Supervisor), KeyFile: s.pki.KeyPath(pki.Supervisor),
		},
	})
}

// checkSettings refuses a server whose flags contradict the cluster it joins. A server that has joined before starts
// without asking: the cluster may need it to come up at all.
func (s *server) checkSettings(ctx context.Context) error {
	if s.hasEtcdData() {
		return nil
	}
	api, err := s.clusterAPI()
	if err != nil {
		return err
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	theirs, err := cluster.ReadSettings(ctx, api)
	if err != nil {
		return err
	}
	if differences := s.settings().Differences(theirs); len(differences) > 0 {
		return fmt.Errorf("this server's flags contradict the cluster at %s: %s: give it the cluster's values",
			s.config.ServerURL, strings.Join(differences, "; "))
	}
	return nil
}

func (s *server) settings() cluster.Settings {
	return cluster.Settings{
		ClusterCIDR: s.config.ClusterCIDR.String(), ServiceCIDR: s.config.ServiceCIDR.String(),
		ClusterDNS: s.config.ClusterDNS.String(), ClusterDomain: s.config.ClusterDomain,
		DisableNetworkPolicy: s.config.Disabled(config.NetworkPolicy),
	}
}
