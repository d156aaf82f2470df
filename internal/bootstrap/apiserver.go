package bootstrap

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Paths are where a program finds the cluster's certificates and keys. A pki.Store knows, whether or not its directory
// is on this host.
type Paths interface {
	CertPath(name string) string
	KeyPath(name string) string
	CAPath(authority pki.Authority) string
	ServiceAccountKeyPath() string
	ServiceAccountPublicKeyPath() string
	EncryptionConfigPath() string
}

var _ Paths = (*pki.Store)(nil)

//go:embed audit-policy.yaml
var auditPolicy []byte

// AuditPolicy is what API servers' audit logs hold.
func AuditPolicy() []byte { return append([]byte(nil), auditPolicy...) }

// Audit is an API server's audit log.
type Audit struct {
	Policy, Log                 string // paths
	MaxAge, MaxBackups, MaxSize int    // days, files, megabytes
}

// Etcd is how an API server reaches its datastore.
type Etcd struct {
	Servers       []string
	CA, Cert, Key string // paths; none where the connection needs none
	// Prefix of all keys; Kubernetes' own where it is empty.
	Prefix string
	// CompactsItself is set where the datastore is compacted by others.
	CompactsItself bool
}

// Args are flags of kube-apiserver, without dashes as everywhere in this package.
func (e Etcd) Args() []string {
	args := []string{"etcd-servers=" + strings.Join(e.Servers, ",")}
	if e.CA != "" {
		args = append(args, "etcd-cafile="+e.CA)
	}
	if e.Cert != "" {
		args = append(args, "etcd-certfile="+e.Cert, "etcd-keyfile="+e.Key)
	}
	if e.Prefix != "" {
		args = append(args, "etcd-prefix="+e.Prefix)
	}
	if e.CompactsItself {
		args = append(args, "etcd-compaction-interval=0")
	}
	return args
}

// Webhook judges bearer tokens.
type Webhook struct {
	Config   string // path of its kubeconfig; no webhook where it is empty
	CacheTTL time.Duration
}

// APIServer is what a kube-apiserver is told.
type APIServer struct {
	PKI       Paths
	Datastore Etcd
	// AdvertiseAddress and Port are where others find it; BindAddress is where it listens.
	AdvertiseAddress, BindAddress string
	Port                          int
	ServiceCIDR, ClusterDomain    string
	// NodePorts is the range of services of type NodePort; Kubernetes' own where it is empty.
	NodePorts string
	Audit     Audit
	Webhook   Webhook
	// EgressSelector is the path of the configuration of the tunnel to the nodes; none where it is empty.
	EgressSelector string
	// SharedAddress is set where replicas share one address: then they do not write the endpoints of the Service
	// kubernetes, from which each of them would take the address away when it ends.
	SharedAddress bool
	// ShutdownDelay is how long it goes on serving after it was told to stop, until nobody sends it requests.
	ShutdownDelay time.Duration
}

// Args are the flags.
func (a APIServer) Args() []string {
	args := append(a.Datastore.Args(),
		"advertise-address="+a.AdvertiseAddress,
		"bind-address="+a.BindAddress,
		"secure-port="+strconv.Itoa(a.Port),
		"tls-cert-file="+a.PKI.CertPath(pki.APIServer),
		"tls-private-key-file="+a.PKI.KeyPath(pki.APIServer),
		"client-ca-file="+a.PKI.CAPath(pki.ClusterCA),
		"kubelet-certificate-authority="+a.PKI.CAPath(pki.ClusterCA),
		"kubelet-client-certificate="+a.PKI.CertPath(pki.APIServerKubeletClient),
		"kubelet-client-key="+a.PKI.KeyPath(pki.APIServerKubeletClient),
		// Node names need not resolve; addresses always do.
		"kubelet-preferred-address-types=InternalIP,Hostname",
		"service-cluster-ip-range="+a.ServiceCIDR,
		"service-account-issuer=https://kubernetes.default.svc."+a.ClusterDomain,
		"service-account-key-file="+a.PKI.ServiceAccountPublicKeyPath(),
		"service-account-signing-key-file="+a.PKI.ServiceAccountKeyPath(),
		"requestheader-client-ca-file="+a.PKI.CAPath(pki.FrontProxyCA),
		"requestheader-allowed-names=front-proxy-client",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-username-headers=X-Remote-User",
		"proxy-client-cert-file="+a.PKI.CertPath(pki.FrontProxyClient),
		"proxy-client-key-file="+a.PKI.KeyPath(pki.FrontProxyClient),
		// As everywhere: who may run privileged pods is for Pod Security to say, by namespace.
		"allow-privileged=true",
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"enable-bootstrap-token-auth=true",
		"encryption-provider-config="+a.PKI.EncryptionConfigPath(),
		// Keys are rotated while it runs.
		"encryption-provider-config-automatic-reload=true",
		"audit-policy-file="+a.Audit.Policy,
		"audit-log-path="+a.Audit.Log,
		"audit-log-maxage="+strconv.Itoa(a.Audit.MaxAge),
		"audit-log-maxbackup="+strconv.Itoa(a.Audit.MaxBackups),
		"audit-log-maxsize="+strconv.Itoa(a.Audit.MaxSize),
		"profiling=false",
		// Without it, the watches of pods that go on running hold up a stop until the process is killed.
		"shutdown-watch-termination-grace-period=2s",
	)
	return append(args, a.optional()...)
}

// optional are the flags of what not every API server has.
func (a APIServer) optional() []string {
	var args []string
	if a.NodePorts != "" {
		args = append(args, "service-node-port-range="+a.NodePorts)
	}
	if a.Webhook.Config != "" {
		args = append(args,
			"authentication-token-webhook-version=v1",
			"authentication-token-webhook-config-file="+a.Webhook.Config,
			"authentication-token-webhook-cache-ttl="+a.Webhook.CacheTTL.String())
	}
	if a.EgressSelector != "" {
		args = append(args, "egress-selector-config-file="+a.EgressSelector)
	}
	if a.SharedAddress {
		args = append(args, "endpoint-reconciler-type=none")
	}
	if a.ShutdownDelay > 0 {
		args = append(args, "shutdown-delay-duration="+a.ShutdownDelay.String())
	}
	return args
}
