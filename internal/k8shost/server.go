package k8shost

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/controlplane"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
	"plasmacloud.io/plasmacloud/internal/k8shost/node"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
	"plasmacloud.io/plasmacloud/internal/release"
)

// server is one run of `k8shost server`.
type server struct {
	config  *config.Server
	dir     datadir.Dir
	log     *slog.Logger
	facts   *host.Facts
	release *release.Catalogue
	version string
	pki     *pki.Store
	leaves  []pki.Leaf
	plane   *controlplane.Plane
	token   token.Token
	bundle  sync.Mutex // one writer at a time of what the servers share
}

// RunServer runs a server until ctx ends. It calls ready once the node does its job.
func RunServer(ctx context.Context, c *config.Server, log *slog.Logger, ready func()) error {
	s, err := newServer(c, log)
	if err != nil {
		return err
	}
	unlock, err := claim(ctx, s.dir, log)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.check(); err != nil {
		return err
	}
	if c.ClusterReset {
		return s.reset(ctx)
	}
	if err := s.prepareSecrets(ctx); err != nil {
		return err
	}
	members, err := s.membership(ctx)
	if err != nil {
		return err
	}
	stages, err := s.stages(members)
	if err != nil {
		return err
	}
	// From here on the datastore may hold objects that an older version cannot read.
	if err := s.dir.RecordVersion(s.version); err != nil {
		return err
	}
	log.Info("starting server", "kubernetes", s.version, "node", c.NodeName, "address", c.NodeIP, "dataDir", c.DataDir)
	return runStages(ctx, s.dir, log, ready, stages)
}

func newServer(c *config.Server, log *slog.Logger) (*server, error) {
	catalogue, version, err := openRelease(c.ReleaseDir, c.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	s := &server{config: c, dir: datadir.New(c.DataDir), log: log, release: catalogue, version: version}
	s.pki = pki.New(s.dir.TLS(), clock.RealClock{})
	names := pki.Server{
		NodeName: c.NodeName, ClusterDomain: c.ClusterDomain, ServiceCIDRs: []netip.Prefix{c.ServiceCIDR},
		NodeIPs: []netip.Addr{c.NodeIP}, AdvertiseAddress: c.AdvertiseAddress, TLSSANs: c.TLSSANs,
	}
	if err := names.Validate(); err != nil {
		return nil, err
	}
	s.leaves = names.Leaves()
	s.plane = &controlplane.Plane{Config: c, Dir: s.dir, Log: log, PKI: s.pki}
	if err := s.findPrograms(); err != nil {
		return nil, err
	}
	return s, nil
}

// findPrograms finds those that the server starts: a host need not have what its datastore does not use.
func (s *server) findPrograms() (err error) {
	if s.plane.Kube, err = s.release.Kube(s.version); err != nil {
		return err
	}
	switch s.config.DatastoreKind() {
	case config.EmbeddedEtcd:
		s.plane.Etcd, err = s.release.Binary("etcd")
	case config.SQLite, config.ExternalSQL:
		s.plane.Kine, err = s.release.Binary("kine")
	}
	return err
}

// check looks for everything that would make the start fail later, while nothing has been changed yet.
func (s *server) check() error {
	if err := s.dir.CheckVersion(s.version); err != nil {
		return err
	}
	facts, err := host.Detect(host.Options{DataDir: s.config.DataDir, Ports: s.config.Ports()})
	if err != nil {
		return err
	}
	s.facts = &facts
	return preflight(s.facts, s.log)
}

// stages are the server's parts in the order in which they start.
func (s *server) stages(members controlplane.EtcdMembership) ([]component.Stage, error) {
	store := s.plane.Datastore(members)
	base := component.Stage(store.Components)
	api := component.Stage{s.plane.APIServer(store)}
	work := component.Stage{
		s.plane.ControllerManager(), s.plane.Scheduler(),
		s.approver(), s.certificateRenewal(), s.snapshots(),
	}
	if !s.config.DisableAgent {
		n := s.node()
		containerd, err := n.Containerd()
		if err != nil {
			return nil, err
		}
		credentials := s.nodeCredentials()
		workers, err := nodeParts(n, credentials, func(name string) bool { return s.config.Disabled(name) })
		if err != nil {
			return nil, err
		}
		base = append(base, containerd)
		api = append(api, n.ImportImages())
		work = append(work, append(workers, s.roleLabels())...)
	}
	return []component.Stage{base, {s.sharedKeys()}, api, {s.clusterObjects()}, work}, nil
}

func (s *server) node() *node.Node {
	return &node.Node{
		Config: &s.config.Node, Dir: s.dir, Log: s.log, Settings: s.facts.Settings(), Cgroups: s.facts.Cgroup,
		Release: s.release, Version: s.version,
		ClusterCIDR: s.config.ClusterCIDR, ClusterDNS: s.config.ClusterDNS.String(), ClusterDomain: s.config.ClusterDomain,
	}
}

// nodeCredentials are issued by the server to its own node: it holds the cluster's authority anyway.
func (s *server) nodeCredentials() node.Credentials {
	return node.Credentials{
		CA:          s.pki.CAPath(pki.ClusterCA),
		Kubelet:     s.plane.Kubeconfig(pki.KubeletClient),
		Proxy:       s.plane.Kubeconfig(pki.NodeProxy),
		ServingCert: s.pki.CertPath(pki.KubeletServer),
		ServingKey:  s.pki.KeyPath(pki.KubeletServer),
	}
}

// certificateRenewal keeps the server's certificates fresh. The programs read renewed files by themselves; only the
// administrator's kubeconfig holds a copy.
func (s *server) certificateRenewal() component.Component {
	return component.NewRoutine("certificates", s.log, nil, func(ctx context.Context) error {
		renewer := &pki.Renewer{
			Store: s.pki, Leaves: s.leaves, Clock: clock.RealClock{}, Logger: s.log.With("component", "certificates"),
			Renewed: func([]pki.Renewal) {
				if err := s.writeKubeconfigs(); err != nil {
					s.log.Error("cannot write kubeconfigs with renewed certificates", "error", err)
				}
			},
		}
		renewer.Run(ctx)
		return ctx.Err()
	})
}

func (s *server) embeddedEtcd() bool { return s.config.DatastoreKind() == config.EmbeddedEtcd }

// soon bounds a question that must not hold up a start for ever.
func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, 30*time.Second, errors.New("no answer within 30 seconds"))
}
