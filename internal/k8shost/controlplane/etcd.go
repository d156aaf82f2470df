package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	etcdClientPort = "2379"
	etcdPeerPort   = "2380"
)

// EtcdMembership says how this node's etcd finds its cluster.
type EtcdMembership struct {
	Name string // this member's
	// Initial is every member's peer URL by name, this one's included. It matters at the first start only.
	Initial map[string]string
	// Joining is set when the others run already.
	Joining bool
	// Await, when set, is part of becoming ready: a joining member waits here to become a full one.
	Await func(ctx context.Context) error
}

// EtcdPeerURL is where this node's etcd talks to the other members.
func (p *Plane) EtcdPeerURL() string {
	return "https://" + net.JoinHostPort(p.Config.NodeIP.String(), etcdPeerPort)
}

// EtcdClientURL is where any node's etcd talks to clients.
func EtcdClientURL(nodeIP string) string {
	return "https://" + net.JoinHostPort(nodeIP, etcdClientPort)
}

func (p *Plane) embeddedEtcd(m EtcdMembership) Datastore {
	local := EtcdClientURL("127.0.0.1")
	advertised := EtcdClientURL(p.Config.NodeIP.String())
	state := "new"
	if m.Joining {
		state = "existing"
	}
	var initial []string
	for name, url := range m.Initial {
		initial = append(initial, name+"="+url)
	}
	args := []string{
		"name=" + m.Name,
		"data-dir=" + p.Dir.EtcdData(),
		"listen-client-urls=" + local + "," + advertised,
		"advertise-client-urls=" + advertised,
		"listen-peer-urls=" + p.EtcdPeerURL(),
		"initial-advertise-peer-urls=" + p.EtcdPeerURL(),
		"initial-cluster=" + strings.Join(initial, ","),
		"initial-cluster-state=" + state,
		"client-cert-auth=true",
		"trusted-ca-file=" + p.PKI.CAPath(pki.EtcdCA),
		"cert-file=" + p.PKI.CertPath(pki.EtcdServer),
		"key-file=" + p.PKI.KeyPath(pki.EtcdServer),
		"peer-client-cert-auth=true",
		"peer-trusted-ca-file=" + p.PKI.CAPath(pki.EtcdCA),
		"peer-cert-file=" + p.PKI.CertPath(pki.EtcdPeer),
		"peer-key-file=" + p.PKI.KeyPath(pki.EtcdPeer),
		"logger=zap",
		"log-outputs=stderr",
	}
	process := p.process(component.Spec{
		Name: "etcd", Path: p.Etcd, Args: p.Config.EtcdArgs.Flags(args...),
		Prepare: func(context.Context) error {
			if err := os.MkdirAll(p.Dir.EtcdData(), 0o700); err != nil {
				return fmt.Errorf("make etcd's directory: %w", err)
			}
			return nil
		},
		Probe: func(ctx context.Context) error {
			if m.Await != nil {
				if err := m.Await(ctx); err != nil {
					return err
				}
			}
			// On the clients' own port, as what follows connects to it at once; the answer takes a quorum.
			return p.healthyTo(ctx, local+"/health", pki.EtcdCA, pki.APIServerEtcdClient)
		},
		Grace: 20 * time.Second,
	})
	return Datastore{
		Components: []component.Component{process},
		etcd: bootstrap.Etcd{
			Servers: []string{local}, CA: p.PKI.CAPath(pki.EtcdCA),
			Cert: p.PKI.CertPath(pki.APIServerEtcdClient), Key: p.PKI.KeyPath(pki.APIServerEtcdClient),
		},
	}
}
