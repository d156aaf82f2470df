package config

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/robfig/cron/v3"
)

// What --datastore takes.
const (
	DatastoreEtcd   = "etcd"
	DatastoreSQLite = "sqlite"
)

// DatastoreKind is what the API server stores its objects in, and who runs it.
type DatastoreKind string

const (
	// EmbeddedEtcd is an etcd that this server runs.
	EmbeddedEtcd DatastoreKind = "etcd"
	// SQLite is a file of this server, behind kine.
	SQLite DatastoreKind = "sqlite"
	// ExternalEtcd is run by somebody else.
	ExternalEtcd DatastoreKind = "external etcd"
	// ExternalSQL is a PostgreSQL or MySQL run by somebody else, behind a kine of ours.
	ExternalSQL DatastoreKind = "external database"
)

// DatastoreKind tells which datastore the flags ask for.
func (s *Server) DatastoreKind() DatastoreKind {
	endpoint := s.DatastoreEndpoint.Reveal()
	switch {
	case strings.HasPrefix(endpoint, "http://") || strings.HasPrefix(endpoint, "https://"):
		return ExternalEtcd
	case endpoint != "":
		return ExternalSQL
	case s.Datastore == DatastoreSQLite:
		return SQLite
	default:
		return EmbeddedEtcd
	}
}

// datastoreFlag names the flag that asked for another datastore than the embedded etcd.
func (s *Server) datastoreFlag() string {
	if s.DatastoreEndpoint != "" {
		return "--datastore-endpoint"
	}
	return "--datastore " + s.Datastore
}

func (s *Server) validateDatastore(p *problems) {
	if s.Datastore == DatastoreSQLite && s.DatastoreEndpoint != "" {
		p.add("--datastore sqlite and --datastore-endpoint contradict each other: leave one out")
	}
	if kind := s.DatastoreKind(); kind != EmbeddedEtcd {
		if s.ClusterInit {
			p.add("--cluster-init and %s contradict each other: a cluster that servers join keeps its data in etcd: leave one out", s.datastoreFlag())
		}
		if kind == SQLite && s.ServerURL != "" {
			p.add("--server and --datastore sqlite contradict each other: a server that joins keeps its data in etcd: leave one out")
		}
		if s.EtcdSnapshotScheduleCron != "" {
			p.add("--etcd-snapshot-schedule-cron and %s contradict each other: no etcd is run here: leave one out", s.datastoreFlag())
		}
	}
	if s.EtcdSnapshotScheduleCron != "" {
		if _, err := cron.ParseStandard(s.EtcdSnapshotScheduleCron); err != nil {
			p.add("--etcd-snapshot-schedule-cron %q: %w: write it as '0 */12 * * *' or '@every 6h'", s.EtcdSnapshotScheduleCron, err)
		}
	}
	if s.EtcdSnapshotRetention < 0 {
		p.add("--etcd-snapshot-retention %d: give the number of snapshots to keep, or 0 to keep all", s.EtcdSnapshotRetention)
	}
	s.validateEndpoint(p)
	s.validateDatastoreFiles(p)
}

// validateEndpoint never repeats the endpoint, as it may hold a password.
func (s *Server) validateEndpoint(p *problems) {
	endpoint := s.DatastoreEndpoint.Reveal()
	switch {
	case endpoint == "":
	case s.DatastoreKind() == ExternalEtcd:
		for i, one := range strings.Split(endpoint, ",") {
			u, err := url.Parse(one)
			if err != nil || u.Host == "" || u.Port() == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" {
				p.add("--datastore-endpoint: URL %d is not of the form https://host:2379: correct it", i+1)
			} else if u.User != nil {
				p.add("--datastore-endpoint: URL %d holds a user name: etcd clients are known by --datastore-certfile and --datastore-keyfile", i+1)
			}
		}
	case hasAnyPrefix(endpoint, "postgres://", "postgresql://", "mysql://"):
		if _, rest, _ := strings.Cut(endpoint, "://"); rest == "" {
			p.add("--datastore-endpoint: nothing comes after ://: name the user, host and database")
		}
	case strings.HasPrefix(endpoint, "sqlite://"):
		p.add("--datastore-endpoint: use --datastore sqlite")
	default:
		p.add("--datastore-endpoint: give https://host:2379[,…] for etcd, postgres://user:password@host:5432/database or mysql://user:password@tcp(host:3306)/database")
	}
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

func (s *Server) validateDatastoreFiles(p *problems) {
	files := []struct{ flag, path string }{
		{"--datastore-cafile", s.DatastoreCAFile},
		{"--datastore-certfile", s.DatastoreCertFile},
		{"--datastore-keyfile", s.DatastoreKeyFile},
	}
	for _, f := range files {
		if f.path == "" {
			continue
		}
		if s.DatastoreEndpoint == "" {
			p.add("%s needs --datastore-endpoint: give both or none", f.flag)
		}
		p.file(f.flag, f.path)
	}
	if (s.DatastoreCertFile == "") != (s.DatastoreKeyFile == "") {
		p.add("--datastore-certfile and --datastore-keyfile go together: give both or none")
	}
}

func (s *Server) validateReset(p *problems) {
	if s.ClusterReset {
		if s.ServerURL != "" {
			p.add("--cluster-reset and --server contradict each other: the reset server is alone until others join it: leave out --server")
		}
		if s.DatastoreKind() != EmbeddedEtcd {
			p.add("--cluster-reset and %s contradict each other: there is no etcd to reset: leave one out", s.datastoreFlag())
		}
	}
	if s.ClusterResetRestorePath == "" {
		return
	}
	if !s.ClusterReset {
		p.add("--cluster-reset-restore-path needs --cluster-reset: give both, as restoring makes this server the only member")
	}
	p.file("--cluster-reset-restore-path", s.ClusterResetRestorePath)
}

// file wants a file that can be read and has something in it.
func (p *problems) file(flag, path string) {
	if err := readable(path); err != nil {
		p.add("%s: %w", flag, err)
	}
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: name a file that can be read", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: name one", path)
	case info.Size() == 0:
		return fmt.Errorf("%s is empty: name another file", path)
	default:
		return nil
	}
}
