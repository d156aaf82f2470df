package controlplane

import (
	"context"
	"os"
	"time"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// APIServer returns kube-apiserver on the given datastore.
func (p *Plane) APIServer(store Datastore) *component.Process {
	args := p.Config.KubeAPIServerArgs.Flags(p.apiServerArgs(store)...)
	return p.process(component.Spec{
		Name: "kube-apiserver", Path: p.Kube, Args: args,
		Prepare: func(context.Context) error {
			if err := os.MkdirAll(p.Dir.Path("server", "logs"), 0o700); err != nil {
				return err
			}
			_, err := atomicfile.WriteChanged(p.auditPolicyFile(), bootstrap.AuditPolicy(), 0o600)
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
	return bootstrap.APIServer{
		PKI: p.PKI, Datastore: store.etcd,
		AdvertiseAddress: c.AdvertiseAddress.String(), BindAddress: c.BindAddress.String(), Port: c.HTTPSListenPort,
		ServiceCIDR: c.ServiceCIDR.String(), ClusterDomain: c.ClusterDomain, NodePorts: c.ServiceNodePortRange.String(),
		Audit: bootstrap.Audit{
			Policy: p.auditPolicyFile(), Log: p.Dir.Path("server", "logs", "audit.log"),
			MaxAge: c.AuditLogMaxAge, MaxBackups: c.AuditLogMaxBackup, MaxSize: c.AuditLogMaxSize,
		},
		Webhook: bootstrap.Webhook{Config: c.WebhookConfigFile, CacheTTL: c.WebhookCacheTTL},
	}.Args()
}
