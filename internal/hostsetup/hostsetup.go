// Package hostsetup brings hosts that answer SSH to be parts of a Kubernetes cluster. What every host needs is here: the
// look before anything is changed (preflight), and what is laid and started before Kubernetes itself is (prerequisites).
// What the types of clusters do with it is in the packages below, each a Distribution.
//
// Everything may be repeated, and is: after an error, a lost connection or a crash the same call is made again, looks at
// what is there, and goes on. Nothing here knows of the management cluster.
package hostsetup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Role is what a host is to be in its cluster.
type Role string

// The roles.
const (
	ControlPlane Role = "ControlPlane"
	Worker       Role = "Worker"
)

// Host is a host to work on.
type Host struct {
	Client *remote.Client
	// Name of the node that it is or becomes.
	Name string
	// Address by which the cluster's other hosts reach it.
	Address string
	// Labels and Taints that its node registers with, and KubeletArgs, further flags of its kubelet, as key=value. Labels
	// that only the control plane may set do not belong here.
	Labels      map[string]string
	Taints      []corev1.Taint
	KubeletArgs []string
}

func (h Host) String() string {
	if h.Name == "" || h.Name == h.Address {
		return h.Address
	}
	return fmt.Sprintf("%s (%s)", h.Name, h.Address)
}

// Network is a cluster's own network.
type Network struct {
	PodCIDR, ServiceCIDR string
	// Domain of the cluster's names, such as cluster.local.
	Domain string
	// CNI is the pod network: prismnet, or none.
	CNI string
}

// The pod networks.
const (
	CNIPrismNET = "prismnet"
	CNINone     = "none"
)

// Cluster is what all hosts of a cluster have in common.
type Cluster struct {
	Name string
	// Version of Kubernetes in full, such as v1.36.3.
	Version string
	// Endpoint is host:port where everybody reaches the API: the load balancer before the control-plane machines.
	Endpoint string
	// SANs are the names and addresses, besides Endpoint's and the machines' own, by which the API is called.
	SANs    []string
	Network Network
	// CA is the cluster's authority in PEM. It is known once the first control-plane machine is there (Init).
	CA []byte
	// HA is set where there is, or can be, more than one control-plane machine.
	HA bool
	// Firewall installs the cluster's security group on a host; nil where the cluster has none. It may be repeated.
	Firewall func(ctx context.Context, host *remote.Client, role Role) error
}

// Credentials are what the first control-plane machine gives away: the cluster's authority, and access to it that is
// above RBAC. All are PEM.
type Credentials struct {
	CA []byte
	// AdminCert and AdminKey are the administrator's, whom RBAC lets do everything; those of SuperAdmin are above RBAC.
	AdminCert, AdminKey           []byte
	SuperAdminCert, SuperAdminKey []byte
}

// String keeps keys out of logs.
func (Credentials) String() string { return "cluster credentials (redacted)" }

// GoString keeps them out of %#v as well.
func (c Credentials) GoString() string { return c.String() }

// Finding is something about a host that is not as it should be.
type Finding struct {
	// Check that found it, such as kubelet, certificates, etcd; Subject is what it is about: a host, a unit, a file.
	Check, Subject string
	// Message says what was found, and Remedy what a person can do.
	Message, Remedy string
	// Repairable is set where Repair mends it.
	Repairable bool
}

func (f Finding) String() string {
	text := f.Message
	if f.Subject != "" {
		text = f.Subject + ": " + text
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

// Distribution is a way to make a cluster out of hosts. Every method may be repeated, at any time, by any process, and
// goes on where an earlier call ended. Calls for different hosts may be made at the same time, except where noted.
type Distribution interface {
	// Prepare looks whether the host will do (a *PreflightError if not, and nothing was changed), and installs what it
	// needs. Progress is told what is being done, for people.
	Prepare(ctx context.Context, host Host, cluster Cluster, role Role, progress func(string)) error
	// Init makes the host the first of its control plane. Where it is that already, it returns the same.
	Init(ctx context.Context, host Host, cluster Cluster) (Credentials, error)
	// JoinControlPlane makes the host a further one of the control plane that first belongs to. A datastore takes in one
	// member at a time: once it has this one, admitted is called, at most once, and the next may join while this one goes on.
	JoinControlPlane(ctx context.Context, host, first Host, cluster Cluster, admitted func()) error
	// JoinWorker makes the host a node. The token is that of a bootstrap token: id.secret.
	JoinWorker(ctx context.Context, host Host, cluster Cluster, token string) error
	// RemoveMember takes a control-plane host that is lost, by its node's name, out of the cluster's datastore, working on
	// one that is there. One that is no member is no error. ErrQuorum: those left would not be a majority.
	RemoveMember(ctx context.Context, via Host, name string) error
	// Health returns what is wrong with a host; none is well. The error is that it could not be asked.
	Health(ctx context.Context, host Host, role Role) ([]Finding, error)
	// Repair mends what Health found and is Repairable.
	Repair(ctx context.Context, host Host, cluster Cluster, role Role, findings []Finding) error
	// Clean removes everything that the other methods made, and looks whether it is gone.
	Clean(ctx context.Context, host *remote.Client) error
}

// Survivor is a Distribution whose cluster can go on from one control-plane host where most of the others are lost.
type Survivor interface {
	// Survive makes the host the only member of its datastore, with the data that it has: what only the others had is
	// lost. It may be repeated.
	Survive(ctx context.Context, host Host) error
}

// ErrQuorum refuses what would leave a datastore without a majority of its members.
var ErrQuorum = errors.New("quorum would be lost")

// ErrPreflight is a host that will not do as it is. The error is a *PreflightError.
var ErrPreflight = errors.New("preflight")

// PreflightError is a host that will not do as it is. Nothing was changed on it.
type PreflightError struct {
	Host     string
	Findings []Finding
}

func (e *PreflightError) Error() string {
	texts := make([]string, len(e.Findings))
	for i, finding := range e.Findings {
		finding.Subject = "" // it is the host
		texts[i] = finding.String()
	}
	return fmt.Sprintf("host %s: preflight: %s", e.Host, strings.Join(texts, " | "))
}

// Is makes it an ErrPreflight.
func (e *PreflightError) Is(target error) bool { return target == ErrPreflight }
