package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	awsapi "plasmacloud.io/plasmacloud/internal/cloudapi/aws"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
)

// stack is what a translation is for.
type stack struct {
	name, infraVersion string
	account            *v1alpha1.Account
}

// outputs of a stack, by name.
type outputs map[string]json.RawMessage

// into reads them into a struct with JSON tags.
func (o outputs) into(value any) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("outputs are not of the shape that is expected: %w", err)
	}
	return nil
}

// networkFacts and clusterFacts are outputs that can be told in a status.
type (
	networkFacts interface {
		Apply(status *v1alpha1.NetworkStatus)
	}
	clusterFacts interface {
		Apply(status *v1alpha1.ClusterStatus)
	}
)

// translator makes variables of resources: one for each cloud. What is wrong with a resource is told in the words of its
// fields.
type translator interface {
	cloud() string
	network(own stack, n *v1alpha1.Network) (any, error)
	cluster(own stack, c *v1alpha1.Cluster, n *v1alpha1.Network, made outputs) (any, error)
	bucket(own stack, b *v1alpha1.Bucket, made outputs) (any, error)
	verify(ctx context.Context, account *v1alpha1.Account, environment map[string]string) (cloudapi.Verdict, error)
	networkFacts() networkFacts
	clusterFacts() clusterFacts
	// access makes access to a cluster.
	access(ctx context.Context, r reach) (*Access, error)
	// addons are those of a cluster.
	addons(f furnished) (addons.Set, error)
}

func translatorOf(provider v1alpha1.Provider) (translator, error) {
	switch provider {
	case v1alpha1.ProviderAWS:
		return inAWS{}, nil
	case v1alpha1.ProviderGCP:
		return inGCP{}, nil
	case v1alpha1.ProviderAzure:
		return inAzure{}, nil
	}
	return nil, fmt.Errorf("accounts of provider %s are in no cloud", provider)
}

// translatorFor is the one of a cloud's name.
func translatorFor(cloud string) (translator, error) {
	for _, each := range []translator{inAWS{}, inGCP{}, inAzure{}} {
		if each.cloud() == cloud {
			return each, nil
		}
	}
	return nil, fmt.Errorf("there is no cloud %q", cloud)
}

// Environment is an account's credentials as the environment of its cloud's provider, and of where its states are.
func Environment(account *v1alpha1.Account, secret map[string][]byte) (map[string]string, error) {
	environment, err := credentials(account, secret)
	if err != nil || account.Spec.StateType() != v1alpha1.StatePostgres {
		return environment, err
	}
	connection := strings.TrimSpace(string(secret[v1alpha1.KeyPostgresConnection]))
	if connection == "" {
		return nil, fmt.Errorf("the credentials of account %s are incomplete: its states are in PostgreSQL, and need %s", account.Name, v1alpha1.KeyPostgresConnection)
	}
	address, err := url.Parse(connection)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, address.Scheme) || address.Host == "" { // whose text is secret
		return nil, fmt.Errorf("%s in the credentials of account %s is no address of PostgreSQL; it looks like postgres://user:password@host/database", v1alpha1.KeyPostgresConnection, account.Name)
	}
	environment[v1alpha1.KeyPostgresConnection] = connection // which is also the name that tofu looks for
	return environment, nil
}

func credentials(account *v1alpha1.Account, secret map[string][]byte) (map[string]string, error) {
	switch account.Spec.Provider {
	case v1alpha1.ProviderAWS:
		return aws.Environment(account, secret)
	case v1alpha1.ProviderGCP:
		return gcp.Environment(account, secret)
	case v1alpha1.ProviderAzure:
		return azure.Environment(account, secret)
	}
	return nil, fmt.Errorf("accounts of provider %s are in no cloud", account.Spec.Provider)
}

// Clouds are what deployers have to know of each cloud.
func Clouds() map[string]deployer.Cloud {
	return map[string]deployer.Cloud{
		aws.Cloud: {Provider: aws.Provider, Rules: aws.Rules(), Finder: func(order *deployer.Order) (terraform.Finder, error) {
			var who awsapi.Identity
			if err := json.Unmarshal(order.Variables, &who); err != nil {
				return nil, fmt.Errorf("read region and role of %s: %w", order.Stack, err)
			}
			return aws.Finder(awsapi.Tags{Environment: order.Environment, Identity: who}), nil
		}},
		gcp.Cloud: {Provider: gcp.Provider, Rules: gcp.Rules(), Finder: func(order *deployer.Order) (terraform.Finder, error) {
			var own gcp.Common
			if err := json.Unmarshal(order.Variables, &own); err != nil {
				return nil, fmt.Errorf("read project and region of %s: %w", order.Stack, err)
			}
			return gcp.Finder(own.Project, own.Region), nil
		}},
		azure.Cloud: {Provider: azure.Provider, Rules: azure.Rules(), Finder: func(order *deployer.Order) (terraform.Finder, error) {
			return azure.Finder(order.Environment["ARM_SUBSCRIPTION_ID"]), nil
		}},
	}
}
