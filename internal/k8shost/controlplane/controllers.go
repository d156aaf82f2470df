package controlplane

import (
	"context"
	"crypto/tls"
	"strconv"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// ControllerManager returns kube-controller-manager.
func (p *Plane) ControllerManager() *component.Process {
	c := p.Config
	args := bootstrap.ControllerManager{
		Client: p.client(pki.ControllerManager), PKI: p.PKI,
		ClusterCIDR: c.ClusterCIDR.String(), ServiceCIDR: c.ServiceCIDR.String(),
	}.Args()
	return p.process(component.Spec{
		Name: "kube-controller-manager", Path: p.Kube, Args: c.KubeControllerManagerArgs.Flags(args...),
		Probe: selfSignedHealthy(bootstrap.ControllerManagerPort),
	})
}

// Scheduler returns kube-scheduler.
func (p *Plane) Scheduler() *component.Process {
	args := bootstrap.Scheduler{Client: p.client(pki.Scheduler)}.Args()
	return p.process(component.Spec{
		Name: "kube-scheduler", Path: p.Kube, Args: p.Config.KubeSchedulerArgs.Flags(args...),
		Probe: selfSignedHealthy(bootstrap.SchedulerPort),
	})
}

func (p *Plane) client(certificate string) bootstrap.Client {
	return bootstrap.Client{Kubeconfig: p.Kubeconfig(certificate), BindAddress: "127.0.0.1"}
}

// selfSignedHealthy probes a component that serves its health on loopback with a certificate it made for itself:
// there is nothing to verify it against, and nothing secret is said.
func selfSignedHealthy(port int) func(context.Context) error {
	return healthy("https://127.0.0.1:"+strconv.Itoa(port)+"/healthz", &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // see above
	})
}
