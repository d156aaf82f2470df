// Package machines makes clusters whose control plane runs on machines: of type Kubeadm and of type K3s. The control
// plane's machines are Machine objects that are made here, and so are the load balancer before their API servers and
// what the cluster has besides on the management cluster. What is done on a machine is a hostsetup.Distribution's to know:
// the types differ in nothing else. The workers are made by the controllers of node groups and machines; here it is only
// waited for them.
//
// A file is a step, or two that belong together. Every step looks first, and brings a part of the cluster to what its spec
// says: the same steps create, change and repair.
package machines

import (
	"context"
	"errors"
	"fmt"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Config is what the provisioner works with.
type Config struct {
	base.Config
	// Type of the clusters.
	Type v1alpha1.ClusterType
	// Distribution is what is done on machines. Its error says what the installation lacks to make such clusters.
	Distribution func(c *v1alpha1.Cluster) (hostsetup.Distribution, error)
	// Reach returns a machine of an account to work on.
	Reach func(ctx context.Context, namespace, account string, key machine.Key) (*remote.Client, error)
	// Firewall returns what installs a cluster's security group on a host; nil where there is none.
	Firewall func(c *v1alpha1.Cluster) func(ctx context.Context, host *remote.Client, role hostsetup.Role) error
	// CheckFirewall tells what is wrong with the security group on a host, for people; nothing where all is well. It is nil
	// where Firewall is.
	CheckFirewall func(ctx context.Context, c *v1alpha1.Cluster, host *remote.Client, role hostsetup.Role) (problem string, err error)
	// Image of the balancer: the daemon's own.
	Image string
	// Contents are what the platform has to put into a cluster besides what all have.
	Contents Contents
}

// Contents are parts of a cluster that the platform adds where its distribution does not bring them.
type Contents struct {
	// PodNetwork is the permissions of PrismNET's daemons.
	PodNetwork bool
}

// Provisioner makes clusters of one type.
type Provisioner struct{ Config }

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a provisioner.
func New(config Config) (*Provisioner, error) {
	config.Manager = "plasmacloud-machines"
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("make provisioner of clusters on machines: %w", err)
	}
	if config.Type == "" || config.Distribution == nil || config.Reach == nil || config.Image == "" {
		return nil, errors.New("make provisioner of clusters on machines: type, distribution, reach and image are needed")
	}
	return &Provisioner{Config: config}, nil
}

const stepNodes = "nodes"

// Steps implements provisioner.Provisioner.
func (p *Provisioner) Steps(operation v1alpha1.Operation, _ *v1alpha1.Cluster) ([]task.Step, error) {
	switch operation {
	case v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationRepair:
		steps := []task.Step{
			p.step("prepare", (*build).prepare),
			p.step("endpoint", (*build).ensureEndpoint),
		}
		if operation == v1alpha1.OperationRepair {
			steps = append(steps, p.step("mend-hosts", (*build).mendHosts))
		}
		return append(steps,
			p.step("control-plane-machines", (*build).ensureMachines),
			p.step("prerequisites", (*build).prepareMembers),
			p.step("init", (*build).initialise),
			p.step("cluster-objects", (*build).applyClusterObjects), // without them no node that joins becomes ready
			p.step("join-control-plane", (*build).joinControlPlane),
			p.step(stepNodes, (*build).awaitNodes),
		), nil
	case v1alpha1.OperationScale:
		return []task.Step{p.step(stepNodes, (*build).awaitNodes)}, nil
	case v1alpha1.OperationDelete:
		return []task.Step{
			p.step(base.StepRemoveNodes, (*build).removeNodes),
			p.step("remove-identity", (*build).removeIdentity),
			p.step("remove-namespace", (*build).removeNamespace),
		}, nil
	case v1alpha1.OperationUpgrade:
		return nil, provisioner.Unsupported(p.Type, operation, "make a new cluster of the new version, and move to it")
	default:
		return nil, provisioner.Unsupported(p.Type, operation, "it does not know the operation")
	}
}

// build is one step's work on one cluster.
type build struct {
	*base.Build
	own *Config
}

func (p *Provisioner) step(name string, do func(b *build, ctx context.Context) error) task.Step {
	return task.Step{Name: name, Run: func(ctx context.Context, scope *task.Scope) error {
		b, err := p.begin(scope)
		if err != nil {
			return err
		}
		return do(b, ctx)
	}}
}

func (p *Provisioner) begin(scope *task.Scope) (*build, error) {
	begun, err := base.New(&p.Config.Config, scope)
	return &build{Build: begun, own: &p.Config}, err
}

// distribution is what is done on the cluster's machines.
func (b *build) distribution() (hostsetup.Distribution, error) {
	distribution, err := b.own.Distribution(b.Cluster)
	if err != nil {
		return nil, task.Permanent(fmt.Errorf("clusters of type %s: %w", b.own.Type, err))
	}
	return distribution, nil
}
