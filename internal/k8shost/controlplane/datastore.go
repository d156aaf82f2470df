package controlplane

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
)

// Datastore is where the API server keeps its objects.
type Datastore struct {
	// Components run the datastore, where it runs on this node.
	Components []component.Component
	etcd       bootstrap.Etcd
}

// Datastore returns the datastore that the configuration asks for; members says how an embedded etcd finds its
// cluster.
func (p *Plane) Datastore(members EtcdMembership) Datastore {
	switch p.Config.DatastoreKind() {
	case config.SQLite:
		// WAL lets readers go on while one writes; a writer waits for another instead of failing.
		return p.kine("sqlite://" + filepath.Join(p.Dir.SQLite(), "state.db") +
			"?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate")
	case config.ExternalSQL:
		return p.kine(p.Config.DatastoreEndpoint.Reveal())
	case config.ExternalEtcd:
		return p.externalEtcd()
	default:
		return p.embeddedEtcd(members)
	}
}

func (p *Plane) externalEtcd() Datastore {
	c := p.Config
	return Datastore{etcd: bootstrap.Etcd{
		Servers: []string{c.DatastoreEndpoint.Reveal()}, CA: c.DatastoreCAFile, Cert: c.DatastoreCertFile, Key: c.DatastoreKeyFile,
	}}
}

// kine is an etcd API in front of an SQL database. It listens on a socket that only root reaches.
func (p *Plane) kine(endpoint string) Datastore {
	socket := p.Dir.Runtime("kine.sock")
	env := []string{
		// By environment, as a database's address may hold its password and arguments are for all to see.
		"KINE_ENDPOINT=" + endpoint,
		"KINE_CA_FILE=" + p.Config.DatastoreCAFile,
		"KINE_CERT_FILE=" + p.Config.DatastoreCertFile,
		"KINE_KEY_FILE=" + p.Config.DatastoreKeyFile,
	}
	process := p.process(component.Spec{
		Name: "kine", Path: p.Kine, Env: env,
		Args: []string{"--listen-address=unix://" + socket, "--metrics-bind-address=0", "--watch-progress-notify-interval=5s"},
		Prepare: func(context.Context) error {
			return os.MkdirAll(p.Dir.SQLite(), 0o700)
		},
		Probe: func(ctx context.Context) error {
			connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				return err
			}
			return connection.Close()
		},
	})
	return Datastore{Components: []component.Component{process}, etcd: bootstrap.Etcd{Servers: []string{"unix://" + socket}}}
}
