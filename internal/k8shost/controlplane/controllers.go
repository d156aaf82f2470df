package controlplane

import (
	"context"
	"crypto/tls"
	"strconv"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	controllerManagerPort = 10257
	schedulerPort         = 10259
)

// ControllerManager returns kube-controller-manager.
func (p *Plane) ControllerManager() *component.Process {
	c := p.Config
	args := append(p.clientArgs(pki.ControllerManager),
		"bind-address=127.0.0.1",
		"secure-port="+strconv.Itoa(controllerManagerPort),
		// Besides the default ones: removal of expired join tokens, and the signature of cluster-info.
		"controllers=*,bootstrapsigner,tokencleaner",
		"allocate-node-cidrs=true",
		"cluster-cidr="+c.ClusterCIDR.String(),
		"service-cluster-ip-range="+c.ServiceCIDR.String(),
		"cluster-signing-cert-file="+p.PKI.CAPath(pki.ClusterCA),
		"cluster-signing-key-file="+p.PKI.KeyPath(string(pki.ClusterCA)),
		"root-ca-file="+p.PKI.CAPath(pki.ClusterCA),
		"service-account-private-key-file="+p.PKI.ServiceAccountKeyPath(),
		"use-service-account-credentials=true",
		"requestheader-client-ca-file="+p.PKI.CAPath(pki.FrontProxyCA),
		"client-ca-file="+p.PKI.CAPath(pki.ClusterCA),
		"profiling=false",
	)
	return p.process(component.Spec{
		Name: "kube-controller-manager", Path: p.Kube, Args: c.KubeControllerManagerArgs.Flags(args...),
		Probe: selfSignedHealthy(controllerManagerPort),
	})
}

// Scheduler returns kube-scheduler.
func (p *Plane) Scheduler() *component.Process {
	args := append(p.clientArgs(pki.Scheduler),
		"bind-address=127.0.0.1",
		"secure-port="+strconv.Itoa(schedulerPort),
		"profiling=false",
	)
	return p.process(component.Spec{
		Name: "kube-scheduler", Path: p.Kube, Args: p.Config.KubeSchedulerArgs.Flags(args...),
		Probe: selfSignedHealthy(schedulerPort),
	})
}

// clientArgs point a component at the API server with its own identity for all that it asks there.
func (p *Plane) clientArgs(client string) []string {
	file := p.Kubeconfig(client)
	return []string{
		"kubeconfig=" + file,
		"authentication-kubeconfig=" + file,
		"authorization-kubeconfig=" + file,
		"leader-elect=true",
		// At the default of 20 a second, the controllers' own accounts alone take five seconds to make.
		"kube-api-qps=100",
		"kube-api-burst=200",
	}
}

// selfSignedHealthy probes a component that serves its health on loopback with a certificate it made for itself:
// there is nothing to verify it against, and nothing secret is said.
func selfSignedHealthy(port int) func(context.Context) error {
	return healthy("https://127.0.0.1:"+strconv.Itoa(port)+"/healthz", &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // see above
	})
}
