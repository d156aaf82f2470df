// Package hosted makes clusters whose control plane runs as pods on the management cluster: a namespace for each cluster,
// in it a Deployment of API server, controllers, scheduler and tunnel, and in front of it a Service with a port of its
// own. The nodes are made by the controllers of node groups and machines; here it is only waited for them.
//
// A file is a step, or two that belong together. Every step brings a part of the cluster to what its spec says, whatever
// it finds: the same steps create, change, upgrade and repair. Everything that is made has a name that follows from the
// cluster, so that a step which was killed, or another worker, finds it again.
package hosted

import (
	"context"
	"errors"
	"fmt"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Datastore is where a cluster's API server keeps its objects. Ensure may be repeated; datastore.ErrNotReady means to ask
// again. Remove of what is not there is no error.
type Datastore interface {
	Ensure(ctx context.Context, tenant datastore.Tenant) (datastore.Credentials, error)
	Remove(ctx context.Context, tenant datastore.Tenant) error
}

// Config is what the provisioner works with.
type Config struct {
	base.Config
	// Datastore returns the one that a cluster asks for.
	Datastore func(c *v1alpha1.Cluster) (Datastore, error)
	// Scratch is a directory in memory in which certificates are made; the system's for temporary files where it is empty.
	Scratch string
}

// manager is the name under which fields are set.
const manager = "plasmacloud-hosted"

// Provisioner makes clusters of type Hosted.
type Provisioner struct{ Config }

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a provisioner.
func New(config Config) (*Provisioner, error) {
	config.Manager = manager
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("make provisioner of hosted clusters: %w", err)
	}
	if config.Datastore == nil {
		return nil, errors.New("make provisioner of hosted clusters: datastore is needed")
	}
	return &Provisioner{Config: config}, nil
}

// Steps implements provisioner.Provisioner.
func (p *Provisioner) Steps(operation v1alpha1.Operation, _ *v1alpha1.Cluster) ([]task.Step, error) {
	switch operation {
	case v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationUpgrade, v1alpha1.OperationRepair:
		return []task.Step{
			p.step("prepare", (*build).prepare),
			p.step("certificates", (*build).ensureAuthorities),
			p.step("endpoint", (*build).ensureEndpoint),
			p.step("datastore", (*build).ensureDatastore),
			p.step("control-plane", (*build).startControlPlane),
			p.step("api", (*build).awaitAPI),
			p.step("cluster-objects", (*build).applyClusterObjects),
			p.step("nodes", (*build).awaitNodes),
		}, nil
	case v1alpha1.OperationScale:
		return []task.Step{p.step("nodes", (*build).awaitNodes)}, nil
	case v1alpha1.OperationDelete:
		return []task.Step{
			p.step(base.StepRemoveNodes, func(b *build, ctx context.Context) error { return b.RemoveNodes(ctx) }),
			p.step("remove-control-plane", (*build).removeControlPlane),
			p.step("remove-datastore", (*build).removeDatastore),
			p.step("remove-identity", (*build).removeIdentity),
			p.step("remove-namespace", (*build).removeNamespace),
		}, nil
	default:
		return nil, provisioner.Unsupported(v1alpha1.ClusterHosted, operation, "it does not know the operation")
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
