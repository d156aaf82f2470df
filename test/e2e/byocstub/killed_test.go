//go:build e2e

package byocstub

import (
	"context"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stub "plasmacloud.io/plasmacloud/test/stub/aws"
)

// afterwards adopts what a killed apply has left behind, and brings the stack to its end: nothing was built twice.
func afterwards(t *testing.T, w *terraform.Workspace, finder terraform.Finder, policy terraform.Policy, created func() map[string]int, once ...string) {
	t.Helper()
	adopted, err := w.Adopt(t.Context(), finder)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("adopted were %v", adopted)
	byoclab.Apply(t, w, policy, terraform.PlanOptions{})
	for _, kind := range once {
		if count := created()[kind]; count != 1 {
			t.Errorf("there were %d %s made", count, kind)
		}
	}
	policy.Consent = []string{"*"}
	byoclab.Apply(t, w, policy, terraform.PlanOptions{Destroy: true})
}

func TestAKilledNetworkInGCP(t *testing.T) {
	lab := byoclab.New(t, time.Second)
	cloud, stub := lab.GCP(t, delay)
	account := byoclab.GCPAccount()
	variables, err := gcp.Network(gcp.Stack{Name: "team.network", Account: account}, byoclab.Network(), gcp.NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	network := cloud.Open(t, "team.network", "v1.0.0", configuration.Network, variables)
	cloud.Killed(t, network, "team.network", 1)
	finder := gcp.Finder(account.Spec.GCP.ProjectID, account.Spec.Region)
	afterwards(t, network, finder, terraform.Policy{Rules: gcp.Rules()}, stub.Created, "networks", "subnetworks", "routers")
	if left := stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

func TestAKilledNetworkInAzure(t *testing.T) {
	lab := byoclab.New(t, time.Second)
	cloud, stub := lab.Azure(t, delay)
	account := byoclab.AzureAccount()
	variables, err := azure.Network(azure.Stack{Name: "team.network", Account: account}, byoclab.Network(), azure.NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	network := cloud.Open(t, "team.network", "v1.0.0", configuration.Network, variables)
	cloud.Killed(t, network, "team.network", 2)
	afterwards(t, network, azure.Finder(account.Spec.Azure.SubscriptionID), terraform.Policy{Rules: azure.Rules()}, stub.Created, "resourcegroups", "virtualnetworks", "subnets")
	if left := stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

// tags are the stub's, as AWS's tagging API would list them.
type tags struct{ *stub.Server }

func (t tags) List(_ context.Context, stack string) ([]aws.Tagged, error) {
	var found []aws.Tagged
	for arn, tags := range t.Tagged(aws.TagStack, stack) {
		found = append(found, aws.Tagged{ARN: arn, Tags: tags})
	}
	return found, nil
}

func TestAKilledNetworkInAWS(t *testing.T) {
	s := newAWS(t)
	network := s.network("v1.1.0", aws.NetworkOptions{})
	for _, after := range []int{1, 12} { // and once more, in the middle of the second try
		s.cloud.Killed(t, network, "team.network", after)
		if _, err := network.Adopt(t.Context(), aws.Finder(tags{s.stub})); err != nil {
			t.Fatal(err)
		}
	}
	afterwards(t, network, aws.Finder(tags{s.stub}), s.policy, s.stub.Created, "Vpcs", "InternetGateways", "NatGateways", "Addresses", "roles", "log-groups")
	if left := s.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}
