// Package base is what provisioners have in common whose clusters have something on the management cluster: a namespace
// for each cluster with the daemon's permissions and the walls around it, an endpoint, Secrets, waiting by watching, the
// nodes that controllers make, the kubeconfigs that people are handed, and the removal of all that. What only one type of
// cluster has belongs to the type's own package.
//
// Everything that is made has a name that follows from the cluster, so that a step which was killed, or another worker,
// finds it again.
package base

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/task"
)

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

// Config is what a provisioner works with.
type Config struct {
	// Manager is the name under which fields are set.
	Manager string
	// Client and Dynamic reach the management cluster.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Identities and IdentityURL are the identity service, as control planes reach it; without them, a cluster's API
	// takes certificates alone.
	Identities  Identities
	IdentityURL string
	// Catalogue is what the installation offers, and Site where it is.
	Catalogue func() (*catalogue.Catalogue, error)
	Site      func(ctx context.Context) (Site, error)
	// Platform is the platform's own namespace, and Account the daemon's service account in it.
	Platform, Account string
	// PullPolicy of the images of what runs on the management cluster; IfNotPresent where it is empty.
	PullPolicy corev1.PullPolicy
	Clock      clock.WithTicker
}

// Validate tells what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Dynamic == nil || c.Catalogue == nil || c.Site == nil || c.Clock == nil {
		return errors.New("client, dynamic, catalogue, site and clock are needed")
	}
	if c.Manager == "" || c.Platform == "" || c.Account == "" {
		return errors.New("the manager's name, and the platform's namespace and account, are needed")
	}
	if (c.Identities == nil) != (c.IdentityURL == "") {
		return errors.New("the identity service's certificates and its URL go together")
	}
	return nil
}

// Build is one step's work on one cluster.
type Build struct {
	*Config
	Scope   *task.Scope
	Cluster *v1alpha1.Cluster
	// Home is the cluster's own namespace on the management cluster.
	Home string
}

// New begins a step's work.
func New(config *Config, scope *task.Scope) (*Build, error) {
	c, ok := scope.Object.(*v1alpha1.Cluster)
	if !ok {
		return nil, task.Permanent(fmt.Errorf("this is no cluster but %T", scope.Object))
	}
	return &Build{Config: config, Scope: scope, Cluster: c, Home: v1alpha1.InfrastructureNamespace(c)}, nil
}

// Version is the one to run, in full. A cluster stays with the version that it runs for as long as its spec allows it: a
// newer one in the catalogue is no reason to roll anything.
func (b *Build) Version(offered *catalogue.Catalogue) (string, error) {
	want, running := b.Cluster.Spec.Version, b.Cluster.Status.Version
	if running != "" && (want == "" || strings.HasPrefix(running+".", want+".")) {
		want = running
	}
	version, err := offered.ResolveVersion(want)
	if err != nil {
		return "", task.Permanent(fmt.Errorf("spec.version: %w", err))
	}
	return version, nil
}

// Offered is the catalogue, and the version to run of it.
func (b *Build) Offered() (*catalogue.Catalogue, string, error) {
	offered, err := b.Catalogue()
	if err != nil {
		return nil, "", err
	}
	version, err := b.Version(offered)
	return offered, version, err
}

// Forced tells whether a deletion is to go on without what is lost already.
func (b *Build) Forced() bool {
	_, forced := b.Cluster.Annotations[v1alpha1.AnnotationForce]
	return forced
}

// StepStarted is when a step of the task was first begun.
func (b *Build) StepStarted(name string) time.Time {
	for _, step := range b.Scope.Task.Status.Steps {
		if step.Name == name && step.StartedAt != nil {
			return step.StartedAt.Time
		}
	}
	return b.Clock.Now()
}
