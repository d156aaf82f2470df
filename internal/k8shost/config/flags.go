package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Annotations that AddFlags puts on every flag: the environment variables that set it, and
// the heading it belongs under.
const (
	AnnotationEnvironment = "k8shost/environment"
	AnnotationGroup       = "k8shost/group"
)

// AddFlags adds the agent's flags and sets the fields to their defaults.
func (a *Agent) AddFlags(fs *pflag.FlagSet) {
	group(fs, "Configuration", a.generalFlags)
	group(fs, "Joining", a.joinFlags)
	group(fs, "Joining", func(fs *pflag.FlagSet) {
		fs.IntVar(&a.LBServerPort, "lb-server-port", 6444, "`port` on 127.0.0.1 of the load balancer over all servers that this node's components talk to")
	})
	group(fs, "Node", a.nodeFlags)
}

// AddFlags adds the server's flags and sets the fields to their defaults.
func (s *Server) AddFlags(fs *pflag.FlagSet) {
	group(fs, "Configuration", s.generalFlags)
	group(fs, "Joining", s.joinFlags)
	group(fs, "Cluster", s.clusterFlags)
	group(fs, "Datastore", s.datastoreFlags)
	group(fs, "Network", s.networkFlags)
	group(fs, "API server", s.apiFlags)
	group(fs, "Node", s.nodeFlags)
	group(fs, "Components", s.componentFlags)
}

// group adds flags under a heading, each with its environment variable.
func group(fs *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	flags.SortFlags = false // the order they are added in is the one to read them in
	add(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		names := []string{environmentName(f.Name)}
		if f.Name == "server" {
			names = append(names, "K8SHOST_URL") // the counterpart of K3S_URL
		}
		f.Annotations = map[string][]string{AnnotationEnvironment: names, AnnotationGroup: {heading}}
	})
	fs.AddFlagSet(flags)
}

func environmentName(flag string) string {
	return "K8SHOST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// isSetting reports whether a flag was added here: a command has others, such as --help.
func isSetting(f *pflag.Flag) bool { return len(f.Annotations[AnnotationEnvironment]) > 0 }

func (n *Node) generalFlags(fs *pflag.FlagSet) {
	n.LogLevel = "info"
	fs.StringVar(&n.ConfigFile, "config", DefaultFile, "YAML `file` with settings under these flags' names; the default one need not exist")
	fs.StringVar(&n.DataDir, "data-dir", DefaultDataDir, "`directory` for everything this node keeps")
	fs.StringVar(&n.ReleaseDir, "release-dir", "", "`directory` of the built release; by default it is looked for around the program and in /usr/local/lib/plasmacloud/release")
	fs.StringVar(&n.KubernetesVersion, "kubernetes-version", "", "`version` of Kubernetes to run, such as v1.36 or v1.36.3; by default the newest of the release")
	fs.Var(choice{&n.LogLevel, []string{"debug", "info", "warn", "error"}}, "log-level", "least `level` that is logged: debug, info, warn or error")
	fs.StringVar(&n.LogFile, "log-file", "", "`file` to log to, with rotation, instead of standard error")
}

func (n *Node) joinFlags(fs *pflag.FlagSet) {
	fs.StringVar(&n.ServerURL, "server", "", "`URL` of a server to join, such as https://10.0.0.1:6443")
	fs.Var(&n.Token, "token", "`token` to join with, or to start a cluster with; other users of the host can see a command line, so prefer --token-file")
	fs.StringVar(&n.TokenFile, "token-file", "", "`file` that holds the token")
}

func (n *Node) nodeFlags(fs *pflag.FlagSet) {
	fs.StringVar(&n.NodeName, "node-name", "", "`name` of this node; by default the host's name in lower case")
	fs.TextVar(&n.NodeIP, "node-ip", netip.Addr{}, "IPv4 `address` of this node; by default the one on the interface of the default route")
	fs.StringSliceVar(&n.NodeLabels, "node-label", nil, "`key=value` label the node registers with; repeatable")
	fs.StringSliceVar(&n.NodeTaints, "node-taint", nil, "`key=value:Effect` taint the node registers with; repeatable")
	fs.IntVar(&n.MaxPods, "max-pods", 110, "`number` of pods this node takes")
	argsVar(fs, &n.KubeletArgs, "kubelet-arg", "kubelet")
	argsVar(fs, &n.KubeProxyArgs, "kube-proxy-arg", "kube-proxy")
}

func (s *Server) clusterFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.ClusterInit, "cluster-init", false, "start a cluster that other servers can join")
	fs.BoolVar(&s.ClusterReset, "cluster-reset", false, "make this server the only member of its etcd, forgetting the others")
	fs.StringVar(&s.ClusterResetRestorePath, "cluster-reset-restore-path", "", "snapshot `file` to restore with --cluster-reset")
	fs.StringSliceVar(&s.Disable, "disable", nil, "`name` of something not to run: "+strings.Join(disableable(), ", ")+"; names of what only k3s ships are accepted: "+strings.Join(notShipped(), ", ")+"; repeatable")
	fs.BoolVar(&s.DisableAgent, "disable-agent", false, "run the control plane only, and no pods")
	fs.StringVar(&s.WriteKubeconfig, "write-kubeconfig", "", "`file` to write the administrator's kubeconfig to, besides the one in the data directory")
	fs.TextVar(&s.WriteKubeconfigMode, "write-kubeconfig-mode", FileMode(0o600), "octal `mode` of that file")
}

func (s *Server) datastoreFlags(fs *pflag.FlagSet) {
	s.Datastore = DatastoreEtcd
	fs.Var(choice{&s.Datastore, []string{DatastoreEtcd, DatastoreSQLite}}, "datastore", "`kind` of datastore to run: etcd, or sqlite for a single server")
	fs.Var(&s.DatastoreEndpoint, "datastore-endpoint", "`URL` of a datastore run elsewhere: https://host:2379[,…] for etcd, postgres://… or mysql://…")
	fs.StringVar(&s.DatastoreCAFile, "datastore-cafile", "", "`file` with the CA certificate of that datastore")
	fs.StringVar(&s.DatastoreCertFile, "datastore-certfile", "", "`file` with the client certificate for that datastore")
	fs.StringVar(&s.DatastoreKeyFile, "datastore-keyfile", "", "`file` with the key of that client certificate")
	fs.StringVar(&s.EtcdSnapshotScheduleCron, "etcd-snapshot-schedule-cron", "", "`cron` schedule of etcd snapshots, such as '0 */12 * * *'; by default none are taken")
	fs.IntVar(&s.EtcdSnapshotRetention, "etcd-snapshot-retention", 5, "`number` of scheduled snapshots to keep; 0 keeps all")
}

func (s *Server) networkFlags(fs *pflag.FlagSet) {
	fs.TextVar(&s.ClusterCIDR, "cluster-cidr", netip.MustParsePrefix("10.42.0.0/16"), "IPv4 `range` of pod addresses, cut into one /24 per node")
	fs.TextVar(&s.ServiceCIDR, "service-cidr", netip.MustParsePrefix("10.43.0.0/16"), "IPv4 `range` of service addresses")
	fs.TextVar(&s.ClusterDNS, "cluster-dns", netip.Addr{}, "`address` of the cluster's DNS; by default the tenth of --service-cidr")
	fs.StringVar(&s.ClusterDomain, "cluster-domain", "cluster.local", "DNS `domain` of the cluster")
	s.ServiceNodePortRange = utilnet.PortRange{Base: 30000, Size: 2768}
	fs.Var(&s.ServiceNodePortRange, "service-node-port-range", "`range` of ports for services of type NodePort")
	fs.StringVar(&s.FlannelBackend, "flannel-backend", "", "only `none`, as in k3s command lines without flannel: the pod network is PrismNET")
	fs.BoolVar(&s.DisableNetworkPolicy, "disable-network-policy", false, "do not enforce NetworkPolicy objects, on any node of the cluster; the same on all servers")
}

func (s *Server) apiFlags(fs *pflag.FlagSet) {
	fs.TextVar(&s.BindAddress, "bind-address", netip.IPv4Unspecified(), "`address` the API server listens on")
	fs.TextVar(&s.AdvertiseAddress, "advertise-address", netip.Addr{}, "`address` under which other nodes and pods reach this API server; by default --bind-address where that is a single one, else --node-ip")
	fs.IntVar(&s.HTTPSListenPort, "https-listen-port", 6443, "`port` of the API server")
	fs.StringSliceVar(&s.TLSSANs, "tls-san", nil, "further host `name` or address that the API server's certificate is good for; repeatable")
	fs.StringVar(&s.WebhookConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig `file` of a webhook that judges bearer tokens")
	fs.DurationVar(&s.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "`time` for which the webhook's answers are remembered")
	fs.IntVar(&s.AuditLogMaxAge, "audit-log-maxage", 30, "`days` that an audit log file is kept")
	fs.IntVar(&s.AuditLogMaxBackup, "audit-log-maxbackup", 10, "`number` of old audit log files kept")
	fs.IntVar(&s.AuditLogMaxSize, "audit-log-maxsize", 100, "`megabytes` after which a new audit log file is begun")
}

func (s *Server) componentFlags(fs *pflag.FlagSet) {
	argsVar(fs, &s.KubeAPIServerArgs, "kube-apiserver-arg", "kube-apiserver")
	argsVar(fs, &s.KubeControllerManagerArgs, "kube-controller-manager-arg", "kube-controller-manager")
	argsVar(fs, &s.KubeSchedulerArgs, "kube-scheduler-arg", "kube-scheduler")
	argsVar(fs, &s.EtcdArgs, "etcd-arg", "etcd")
}

func argsVar(fs *pflag.FlagSet, args *Args, name, component string) {
	fs.StringArrayVar((*[]string)(args), name, nil, "`key=value` flag for "+component+", without its dashes; repeatable, in the environment one a line")
}
