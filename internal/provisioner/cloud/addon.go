package cloud

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// Installer installs add-ons. Again is fine. What cannot be had is in the outcome, and no error.
type Installer interface {
	Install(ctx context.Context, config *rest.Config, set addons.Set, repository string) (addons.Outcome, error)
	// Vacate removes what the cluster's own controllers have made in the cloud, and tells what is still going.
	Vacate(ctx context.Context, config *rest.Config) (addons.Belongings, error)
}

var _ Installer = (*addons.Installer)(nil)

// furnished is what the add-ons of a cluster are made from.
type furnished struct {
	stack         string
	account       *v1alpha1.Account
	cluster       *v1alpha1.Cluster
	made, network outputs
}

// addons installs what a cluster needs now that its API is there. A cluster without them is of use, so what is missing is
// told, and fails nothing.
func (p *Provisioner) addons(ctx context.Context, scope *task.Scope) error {
	s, err := p.load(ctx, scope)
	if err != nil {
		return err
	}
	translate, err := translatorOf(s.account.Spec.Provider)
	if err != nil {
		return task.Permanent(err)
	}
	f := furnished{account: s.account, cluster: s.cluster}
	if f.stack, err = stackOf(scope.Object); err != nil {
		return err
	}
	if f.made, err = p.outputs(ctx, s.cluster); err != nil {
		return err
	}
	if f.network, err = p.outputs(ctx, s.network); err != nil {
		return err
	}
	set, err := translate.addons(f)
	if err != nil {
		return task.Permanent(err)
	}
	outcome, err := p.install(ctx, s, set)
	if err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputAddons, outcome.Problem())
	scope.Report("%s", told(outcome))
	return nil
}

// install installs a set, where the cluster's API can be reached from here at all.
func (p *Provisioner) install(ctx context.Context, s subject, set addons.Set) (outcome addons.Outcome, err error) {
	if set.Empty() {
		return outcome, nil
	}
	if public, _ := translate.Access(s.cluster.Spec.Access, nil); !public {
		outcome.Missing = []string{"all of them: the cluster's API has no public endpoint"}
		return outcome, nil
	}
	access, err := p.Access(ctx, s.cluster)
	if err != nil {
		return outcome, fmt.Errorf("install add-ons: %w", err)
	}
	return p.Addons.Install(ctx, access.config(), set, access.environment[addons.RepositoryVariable])
}

// config is how we use it ourselves.
func (a *Access) config() *rest.Config {
	return &rest.Config{Host: a.Endpoint, BearerToken: a.Token.Value, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}, UserAgent: addons.Manager}
}

// told says in a line what was done.
func told(outcome addons.Outcome) string {
	switch {
	case len(outcome.Missing) > 0:
		return "not installed: " + outcome.Problem()
	case len(outcome.Installed) == 0:
		return "nothing to install"
	}
	return "installed: " + strings.Join(outcome.Installed, ", ")
}

func (inAWS) addons(f furnished) (addons.Set, error) {
	facts := addons.EKS{Region: f.account.Spec.Region, Stack: f.stack}
	if err := f.made.into(&facts.Cluster); err != nil {
		return addons.Set{}, err
	}
	var network aws.NetworkOutputs
	if err := f.network.into(&network); err != nil {
		return addons.Set{}, err
	}
	facts.Network = network
	if chosen := f.cluster.Spec.EKS; chosen != nil {
		facts.AMI = chosen.AMI
	}
	return facts.Set()
}

// GKE and AKS bring along what they need.
func (inGCP) addons(furnished) (addons.Set, error)   { return addons.Set{}, nil }
func (inAzure) addons(furnished) (addons.Set, error) { return addons.Set{}, nil }
