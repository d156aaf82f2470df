package bootstrap

import (
	"strconv"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Ports on which the controllers tell their health, over TLS with certificates that they make for themselves.
const (
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
)

// Client is a program of the control plane that talks to the API server.
type Client struct {
	// Kubeconfig is the path of its credentials, for all that it asks there.
	Kubeconfig string
	// BindAddress is where it tells its health.
	BindAddress string
	// Lease is for how long the one of several replicas that works keeps its place when it is not heard of;
	// Kubernetes' own time where it is zero.
	Lease time.Duration
}

func (c Client) args(port int) []string {
	args := []string{
		"kubeconfig=" + c.Kubeconfig,
		"authentication-kubeconfig=" + c.Kubeconfig,
		"authorization-kubeconfig=" + c.Kubeconfig,
		"leader-elect=true",
		// At the default of 20 a second, the controllers' own accounts alone take five seconds to make.
		"kube-api-qps=100",
		"kube-api-burst=200",
		"bind-address=" + c.BindAddress,
		"secure-port=" + strconv.Itoa(port),
		"profiling=false",
	}
	if c.Lease > 0 {
		// The same proportions as the defaults have, 15, 10 and 2 seconds.
		args = append(args,
			"leader-elect-lease-duration="+c.Lease.String(),
			"leader-elect-renew-deadline="+(c.Lease*2/3).String(),
			"leader-elect-retry-period="+(c.Lease*2/15).String())
	}
	return args
}

// ControllerManager is what a kube-controller-manager is told.
type ControllerManager struct {
	Client
	PKI                      Paths
	ClusterCIDR, ServiceCIDR string
}

// Args are the flags.
func (c ControllerManager) Args() []string {
	return append(c.args(ControllerManagerPort),
		// Besides the default ones: removal of expired join tokens, and the signature of cluster-info.
		"controllers=*,bootstrapsigner,tokencleaner",
		"allocate-node-cidrs=true",
		"cluster-cidr="+c.ClusterCIDR,
		"service-cluster-ip-range="+c.ServiceCIDR,
		"cluster-signing-cert-file="+c.PKI.CAPath(pki.ClusterCA),
		"cluster-signing-key-file="+c.PKI.KeyPath(string(pki.ClusterCA)),
		"root-ca-file="+c.PKI.CAPath(pki.ClusterCA),
		"service-account-private-key-file="+c.PKI.ServiceAccountKeyPath(),
		"use-service-account-credentials=true",
		"requestheader-client-ca-file="+c.PKI.CAPath(pki.FrontProxyCA),
		"client-ca-file="+c.PKI.CAPath(pki.ClusterCA),
	)
}

// Scheduler is what a kube-scheduler is told.
type Scheduler struct{ Client }

// Args are the flags.
func (s Scheduler) Args() []string { return s.args(SchedulerPort) }

// Flags writes arguments, each key=value, as flags.
func Flags(args []string) []string {
	flags := make([]string, 0, len(args))
	for _, arg := range args {
		flags = append(flags, "--"+arg)
	}
	return flags
}
