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
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Datastore is where a cluster's API server keeps its objects. Ensure may be repeated; datastore.ErrNotReady means to ask
// again. Remove of what is not there is no error.
type Datastore interface {
	Ensure(ctx context.Context, tenant datastore.Tenant) (datastore.Credentials, error)
	Remove(ctx context.Context, tenant datastore.Tenant) error
}

// Identities certifies API servers that ask the identity service about tokens. Both calls may be repeated.
type Identities interface {
	Ensure(ctx context.Context, client authority.Client) (*corev1.Secret, error)
	Revoke(ctx context.Context, name string) error
}

var _ Identities = (*authority.Clients)(nil)

// Site is what a cluster has to know about the management cluster that it is on.
type Site struct {
	// Address under which the control planes' ports are reached, by machines and from outside.
	Address netip.Addr
	// PodCIDRs and ServiceCIDRs are the management cluster's, and NodeAddresses those of its nodes: none of a tenant's
	// machines has any business there.
	PodCIDRs, ServiceCIDRs []netip.Prefix
	NodeAddresses          []netip.Addr
}

// Config is what the provisioner works with.
type Config struct {
	// Client and Dynamic reach the management cluster.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Datastore returns the one that a cluster asks for.
	Datastore func(c *v1alpha1.Cluster) (Datastore, error)
	// Identities and IdentityURL are the identity service, as control planes reach it; without them, a cluster's API
	// takes certificates alone.
	Identities  Identities
	IdentityURL string
	// Catalogue is what the installation offers, and Site where it is.
	Catalogue func() (*catalogue.Catalogue, error)
	Site      func(ctx context.Context) (Site, error)
	// Namespace is the platform's own, and Account the daemon's service account in it.
	Namespace, Account string
	// PullPolicy of the control planes' images; IfNotPresent where it is empty.
	PullPolicy corev1.PullPolicy
	// Scratch is a directory in memory in which certificates are made; the system's for temporary files where it is empty.
	Scratch string
	Clock   clock.WithTicker
}

func (c Config) validate() error {
	if c.Client == nil || c.Dynamic == nil || c.Datastore == nil || c.Catalogue == nil || c.Site == nil || c.Clock == nil {
		return errors.New("make provisioner of hosted clusters: client, dynamic, datastore, catalogue, site and clock are needed")
	}
	if c.Namespace == "" || c.Account == "" {
		return errors.New("make provisioner of hosted clusters: the platform's namespace and account are needed")
	}
	if (c.Identities == nil) != (c.IdentityURL == "") {
		return errors.New("make provisioner of hosted clusters: the identity service's certificates and its URL go together")
	}
	return nil
}

// Provisioner makes clusters of type Hosted.
type Provisioner struct{ Config }

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a provisioner.
func New(config Config) (*Provisioner, error) {
	if err := config.validate(); err != nil {
		return nil, err
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
			p.step("remove-nodes", (*build).removeNodes),
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
	*Provisioner
	scope     *task.Scope
	cluster   *v1alpha1.Cluster
	namespace string // the cluster's own
}

func (p *Provisioner) step(name string, do func(b *build, ctx context.Context) error) task.Step {
	return task.Step{Name: name, Run: func(ctx context.Context, scope *task.Scope) error {
		c, ok := scope.Object.(*v1alpha1.Cluster)
		if !ok {
			return task.Permanent(fmt.Errorf("this is no cluster but %T", scope.Object))
		}
		b := &build{Provisioner: p, scope: scope, cluster: c, namespace: v1alpha1.InfrastructureNamespace(c)}
		return do(b, ctx)
	}}
}

// version is the one to run, in full. A cluster stays with the version that it runs for as long as its spec allows it: a
// newer one in the catalogue is no reason to roll anything.
func (b *build) version(offered *catalogue.Catalogue) (string, error) {
	want, running := b.cluster.Spec.Version, b.cluster.Status.Version
	if running != "" && (want == "" || strings.HasPrefix(running+".", want+".")) {
		want = running
	}
	version, err := offered.ResolveVersion(want)
	if err != nil {
		return "", task.Permanent(fmt.Errorf("spec.version: %w", err))
	}
	return version, nil
}

// forced tells whether a deletion is to go on without what is lost already.
func (b *build) forced() bool {
	_, forced := b.cluster.Annotations[v1alpha1.AnnotationForce]
	return forced
}
