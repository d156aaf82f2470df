package controlplane

import (
	"context"
	"os"
	"strconv"
	"time"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"

	_ "embed"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// APIServer returns kube-apiserver on the given datastore.
func (p *Plane) APIServer(store Datastore) *component.Process {
	args := p.Config.KubeAPIServerArgs.Flags(p.apiServerArgs(store)...)
	return p.process(component.Spec{
		Name: "kube-apiserver", Path: p.Kube, Args: args,
		Prepare: func(context.Context) error {
			if err := os.MkdirAll(p.Dir.Path("server", "logs"), 0o700); err != nil {
				return err
			}
			_, err := atomicfile.WriteChanged(p.auditPolicyFile(), auditPolicy, 0o600)
			return err
		},
		Probe: func(ctx context.Context) error {
			return p.healthyTo(ctx, p.LocalURL()+"/readyz", pki.ClusterCA, pki.Supervisor)
		},
		Grace: 30 * time.Second,
	})
}

func (p *Plane) auditPolicyFile() string { return p.Dir.Path("server", "audit-policy.yaml") }

func (p *Plane) apiServerArgs(store Datastore) []string {
	c := p.Config
	args := append(store.APIServerArgs(),
		"advertise-address="+c.AdvertiseAddress.String(),
		"bind-address="+c.BindAddress.String(),
		"secure-port="+strconv.Itoa(c.HTTPSListenPort),
		"tls-cert-file="+p.PKI.CertPath(pki.APIServer),
		"tls-private-key-file="+p.PKI.KeyPath(pki.APIServer),
		"client-ca-file="+p.PKI.CAPath(pki.ClusterCA),
		"kubelet-certificate-authority="+p.PKI.CAPath(pki.ClusterCA),
		"kubelet-client-certificate="+p.PKI.CertPath(pki.APIServerKubeletClient),
		"kubelet-client-key="+p.PKI.KeyPath(pki.APIServerKubeletClient),
		// Node names need not resolve; addresses always do.
		"kubelet-preferred-address-types=InternalIP,Hostname",
		"service-cluster-ip-range="+c.ServiceCIDR.String(),
		"service-node-port-range="+c.ServiceNodePortRange.String(),
		"service-account-issuer=https://kubernetes.default.svc."+c.ClusterDomain,
		"service-account-key-file="+p.PKI.ServiceAccountPublicKeyPath(),
		"service-account-signing-key-file="+p.PKI.ServiceAccountKeyPath(),
		"requestheader-client-ca-file="+p.PKI.CAPath(pki.FrontProxyCA),
		"requestheader-allowed-names=front-proxy-client",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-username-headers=X-Remote-User",
		"proxy-client-cert-file="+p.PKI.CertPath(pki.FrontProxyClient),
		"proxy-client-key-file="+p.PKI.KeyPath(pki.FrontProxyClient),
		// As everywhere: who may run privileged pods is for Pod Security to say, by namespace.
		"allow-privileged=true",
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"enable-bootstrap-token-auth=true",
		"encryption-provider-config="+p.PKI.EncryptionConfigPath(),
		"audit-policy-file="+p.auditPolicyFile(),
		"audit-log-path="+p.Dir.Path("server", "logs", "audit.log"),
		"audit-log-maxage="+strconv.Itoa(c.AuditLogMaxAge),
		"audit-log-maxbackup="+strconv.Itoa(c.AuditLogMaxBackup),
		"audit-log-maxsize="+strconv.Itoa(c.AuditLogMaxSize),
		"profiling=false",
		// Without it, the watches of pods that go on running hold up a stop until the process is killed.
		"shutdown-watch-termination-grace-period=2s",
	)
	if c.WebhookConfigFile != "" {
		args = append(args,
			"authentication-token-webhook-version=v1",
			"authentication-token-webhook-config-file="+c.WebhookConfigFile,
			"authentication-token-webhook-cache-ttl="+c.WebhookCacheTTL.String())
	}
	return args
}
