package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// problems collects what is wrong, so that a person fixes it in one go.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p problems) join() error { return errors.Join(p...) }

// Validate names everything that is wrong, each with the flags and the remedy. It expects
// a completed configuration.
func (a *Agent) Validate() error {
	var p problems
	a.validateGeneral(&p)
	a.validateJoin(&p)
	a.validateNode(&p)
	if a.ServerURL == "" {
		p.add("--server is missing: an agent joins a server: give its URL, such as https://10.0.0.1:6443")
	}
	p.port("lb-server-port", a.LBServerPort)
	p.collisions(a.Ports())
	return p.join()
}

// Validate names everything that is wrong, each with the flags and the remedy. It expects
// a completed configuration.
func (s *Server) Validate() error {
	var p problems
	s.validateGeneral(&p)
	s.validateJoin(&p)
	s.validateNode(&p)
	s.validateCluster(&p)
	s.validateDatastore(&p)
	s.validateReset(&p)
	s.validateRanges(&p)
	s.validateAPI(&p)
	s.validateComponents(&p)
	p.collisions(s.Ports())
	return p.join()
}

// Level is the least level that is logged.
func (n *Node) Level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(n.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}

func (n *Node) validateJoin(p *problems) {
	if n.Token != "" && n.TokenFile != "" {
		p.add("--token and --token-file contradict each other: give one of them")
	} else if _, err := n.ReadToken(); err != nil {
		p.add("%w", err)
	}
	if n.ServerURL == "" {
		return
	}
	if n.Token == "" && n.TokenFile == "" && !datadir.New(n.DataDir).HasJoined() {
		p.add("--server needs a token: give --token-file or --token, from server/token in a server's data directory or `k8shost token create`")
	}
	u, err := url.Parse(n.ServerURL)
	switch {
	case err != nil:
		p.add("--server: not a URL: give one such as https://10.0.0.1:6443")
	case u.User != nil:
		p.add("--server: leave out the user name and password: nodes join with --token-file")
	case u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		p.add("--server %s: give a URL such as https://10.0.0.1:6443", n.ServerURL)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		p.add("--server %s: leave out everything after the port", n.ServerURL)
	}
}

// Names that --disable takes. k3s manifests name what k3s ships and we do not; there is
// nothing to disable then, and no reason to refuse.
func disableable() []string { return []string{"coredns", "kube-proxy", NetworkPolicy} }

// NetworkPolicy is what --disable calls the enforcement of NetworkPolicy objects.
const NetworkPolicy = "network-policy"

func notShipped() []string {
	return []string{"ccm", "flannel", "local-storage", "metrics-server", "runtimes", "servicelb", "traefik"}
}

// Disabled reports whether something is not to be run.
func (s *Server) Disabled(name string) bool { return slices.Contains(s.Disable, name) }

func (s *Server) validateCluster(p *problems) {
	if s.ClusterInit && s.ServerURL != "" {
		p.add("--cluster-init and --server contradict each other: --cluster-init is for the first server, --server for those that join it")
	}
	known := append(disableable(), notShipped()...)
	for _, name := range s.Disable {
		if !slices.Contains(known, name) {
			p.add("--disable %s: unknown%s; known are %s", name, didYouMean(name, known, ""), strings.Join(known, ", "))
		}
	}
	if s.FlannelBackend != "" && s.FlannelBackend != "none" {
		p.add("--flannel-backend %s: the pod network is PrismNET, not flannel: leave it out or say none", s.FlannelBackend)
	}
	s.validateDisabledAgent(p)
}

func (s *Server) validateDisabledAgent(p *problems) {
	if !s.DisableAgent {
		return
	}
	for _, given := range []struct {
		flag   string
		values []string
	}{
		{"node-label", s.NodeLabels},
		{"node-taint", s.NodeTaints},
		{"kubelet-arg", s.KubeletArgs},
		{"kube-proxy-arg", s.KubeProxyArgs},
	} {
		if len(given.values) > 0 {
			p.add("--disable-agent and --%s contradict each other: without an agent there is no node: leave one out", given.flag)
		}
	}
}

func (s *Server) validateComponents(p *problems) {
	p.args("kube-apiserver-arg", s.KubeAPIServerArgs, ownedByAPIServer())
	p.authorization(s.KubeAPIServerArgs)
	p.args("kube-controller-manager-arg", s.KubeControllerManagerArgs, ownedByControllerManager())
	p.args("kube-scheduler-arg", s.KubeSchedulerArgs, ownedByScheduler())
	p.args("etcd-arg", s.EtcdArgs, ownedByEtcd())
	if len(s.EtcdArgs) > 0 && s.DatastoreKind() != EmbeddedEtcd {
		p.add("--etcd-arg and %s contradict each other: no etcd is run here: leave one out", s.datastoreFlag())
	}
	if len(s.KubeProxyArgs) > 0 && s.Disabled("kube-proxy") {
		p.add("--kube-proxy-arg and --disable kube-proxy contradict each other: leave one out")
	}
}
