package k8shost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
	"plasmacloud.io/plasmacloud/internal/k8shost/identity"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/k8shost/node"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// agent is one run of `k8shost agent`.
type agent struct {
	config   *config.Agent
	dir      datadir.Dir
	log      *slog.Logger
	facts    *host.Facts
	balancer *join.LoadBalancer
	proxy    *identity.Proxy
	known    joined
	node     *node.Node // nil until the Kubernetes version is known
}

// joined is what an agent keeps of the cluster it joined, so that it can start while no server answers.
type joined struct {
	cluster.Settings
	Kubernetes string // the servers' version
}

// RunAgent runs an agent until ctx ends. It calls ready once the node does its job.
func RunAgent(ctx context.Context, c *config.Agent, log *slog.Logger, ready func()) error {
	a := &agent{config: c, dir: datadir.New(c.DataDir), log: log}
	unlock, err := claim(ctx, a.dir, log)
	if err != nil {
		return err
	}
	defer unlock()
	facts, err := host.Detect(host.Options{DataDir: c.DataDir, Ports: c.Ports()})
	if err != nil {
		return err
	}
	a.facts = &facts
	if err := preflight(a.facts, log); err != nil {
		return err
	}
	// The load balancer and the node's identity outlive the parts that stop when ctx ends: those still use them.
	lastCtx, last := context.WithCancel(context.WithoutCancel(ctx))
	defer last()
	first, err := a.firstStage()
	if err != nil {
		return err
	}
	joining := component.NewRoutine("join", log, func(ctx context.Context) error { return a.join(ctx, lastCtx) }, nil)
	defer func() {
		if a.proxy != nil {
			a.proxy.Stop()
		}
	}()
	return runStages(ctx, a.dir, log, ready, []component.Stage{append(first, joining)}, a.stages)
}

// firstStage is what need not wait for a server that is just starting: the container runtime, and the images that the
// node brings along. It is empty where only the server can tell which version it is to be.
func (a *agent) firstStage() (component.Stage, error) {
	if a.config.KubernetesVersion == "" {
		return nil, nil
	}
	return a.runtime(a.config.KubernetesVersion)
}

// runtime are the parts that run containers. Images wait for containerd by themselves.
func (a *agent) runtime(version string) (component.Stage, error) {
	catalogue, version, err := openRelease(a.config.ReleaseDir, version)
	if err != nil {
		return nil, err
	}
	a.node = &node.Node{
		Config: &a.config.Node, Dir: a.dir, Log: a.log, Settings: a.facts.Settings(), Cgroups: a.facts.Cgroup,
		Release: catalogue, Version: version,
	}
	containerd, err := a.node.Containerd()
	if err != nil {
		return nil, err
	}
	return component.Stage{containerd, a.node.ImportImages()}, nil
}

// join makes the node known to the cluster: it verifies the server by the token's hash, verifies the token, and gets
// the node's first certificate. A node that has joined before needs none of it.
func (a *agent) join(ctx, lastCtx context.Context) error {
	joinedBefore, err := a.remember()
	if err != nil {
		return err
	}
	var given token.Token
	text, err := a.config.ReadToken()
	if err == nil && text != "" {
		given, err = token.Parse(text.Reveal())
	}
	if err != nil {
		return err
	}
	if joinedBefore {
		err = a.recognize(given)
	} else {
		err = a.trustServer(ctx, given)
	}
	if err != nil {
		return err
	}
	if err := a.startBalancer(lastCtx); err != nil {
		return err
	}
	if err := a.obtainIdentity(ctx, given); err != nil {
		return err
	}
	if !joinedBefore {
		return a.learn(ctx)
	}
	// The servers may run another version by now, and the node follows them; but it starts without them too.
	learnCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.learn(learnCtx); err != nil {
		a.log.Warn("cannot ask the cluster for its settings; going on with those it had", "error", err)
	}
	return nil
}

func (a *agent) caFile() string        { return a.dir.Path("agent", "pki", "ca.crt") }
func (a *agent) bootstrapFile() string { return a.dir.Path("agent", "pki", "bootstrap.kubeconfig") }

// remember reads what the agent knows of its cluster.
func (a *agent) remember() (bool, error) {
	content, err := os.ReadFile(a.dir.JoinedCluster())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, &a.known); err != nil {
		return false, fmt.Errorf("read %s: %w", a.dir.JoinedCluster(), err)
	}
	return true, nil
}

// recognize refuses a token of another cluster than the one that this node is a part of.
func (a *agent) recognize(given token.Token) error {
	ca, err := os.ReadFile(a.caFile())
	if err != nil {
		return fmt.Errorf("read the cluster's CA: %w", err)
	}
	hash, err := token.HashCA(ca)
	if err != nil {
		return err
	}
	if given.CAHash() != "" && given.CAHash() != hash {
		return fmt.Errorf("%w than this node, whose cluster has CA %.12s…: to join the token's, end this node with `k8shost down --purge --data-dir %s` first",
			join.ErrForeignToken, hash, a.dir.Path())
	}
	return nil
}

func (a *agent) trustServer(ctx context.Context, given token.Token) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	ca, err := discover(ctx, a.config.ServerURL, given)
	if err != nil {
		return err
	}
	client, err := join.NewClient(a.config.ServerURL, ca, given)
	if err != nil {
		return err
	}
	if err := join.VerifyToken(ctx, client); err != nil {
		return err
	}
	_, err = atomicfile.WriteChanged(a.caFile(), ca, 0o600)
	return err
}

// balancerURL is the API for this node's own clients: whichever server answers.
func (a *agent) balancerURL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.config.LBServerPort))
}

func (a *agent) startBalancer(ctx context.Context) error {
	server, err := join.ParseServerURL(a.config.ServerURL)
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(server, "https://")
	ca, err := os.ReadFile(a.caFile())
	if err != nil {
		return err
	}
	a.balancer, err = join.ListenLoadBalancer(join.LoadBalancerConfig{
		Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(a.config.LBServerPort)),
		File:   a.dir.Path("agent", "servers.json"), Servers: []string{address}, CA: ca, Logger: a.log.With("component", "balancer"),
	})
	if err != nil {
		return err
	}
	go func() {
		if err := a.balancer.Run(ctx); err != nil {
			a.log.Error("the API load balancer ended", "error", err)
		}
	}()
	return nil
}

func (a *agent) obtainIdentity(ctx context.Context, given token.Token) error {
	a.proxy = &identity.Proxy{
		NodeName: a.config.NodeName, Server: a.balancerURL(), CAFile: a.caFile(),
		Dir: a.dir.AgentPKI(), Kubeconfig: a.dir.Path("agent", "pki", "node-proxy.kubeconfig"),
	}
	if given != (token.Token{}) {
		ca, err := os.ReadFile(a.caFile())
		if err != nil {
			return err
		}
		if err := join.BootstrapKubeconfig(a.bootstrapFile(), a.balancerURL(), ca, given); err != nil {
			return err
		}
		a.proxy.Bootstrap = a.bootstrapFile()
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	return a.proxy.Obtain(ctx)
}

// learn asks the cluster for its settings and keeps them.
func (a *agent) learn(ctx context.Context) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	client, err := a.proxy.Client()
	if err != nil {
		return err
	}
	settings, err := cluster.ReadSettings(ctx, client)
	if err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the servers' version: %w", err)
	}
	a.known = joined{Settings: settings, Kubernetes: version.GitVersion}
	content, err := json.MarshalIndent(a.known, "", "  ")
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteChanged(a.dir.JoinedCluster(), content, 0o600)
	return err
}

// stages are the parts of a node whose cluster is known.
func (a *agent) stages() ([]component.Stage, error) {
	first := component.Stage{a.watchServers()}
	if a.node == nil {
		parts, err := a.runtime(a.known.Kubernetes) // a node must not be newer than its servers
		if err != nil {
			return nil, err
		}
		first = append(first, parts...)
	}
	clusterCIDR, err := netip.ParsePrefix(a.known.ClusterCIDR)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's settings from %s: %w", a.dir.JoinedCluster(), err)
	}
	a.node.ClusterCIDR, a.node.ClusterDNS, a.node.ClusterDomain = clusterCIDR, a.known.ClusterDNS, a.known.ClusterDomain
	credentials := node.Credentials{
		CA: a.caFile(), Kubelet: a.dir.Path("agent", "pki", "kubelet.kubeconfig"), Proxy: a.proxy.Kubeconfig,
		Bootstrap: a.proxy.Bootstrap,
	}
	workers, err := nodeParts(a.node, credentials, func(name string) bool {
		return name == config.NetworkPolicy && a.known.DisableNetworkPolicy
	})
	if err != nil {
		return nil, err
	}
	a.log.Info("joined", "kubernetes", a.node.Version, "node", a.config.NodeName, "address", a.config.NodeIP, "server", a.config.ServerURL)
	return []component.Stage{first, workers}, nil
}

// watchServers keeps the load balancer's list of servers true.
func (a *agent) watchServers() component.Component {
	return component.NewRoutine("servers", a.log, nil, func(ctx context.Context) error {
		client, err := a.proxy.Client()
		if err != nil {
			return err
		}
		return join.WatchServers(ctx, client, a.balancer, a.log.With("component", "servers"))
	})
}
