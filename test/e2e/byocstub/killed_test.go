//go:build e2e

package byocstub

import (
	"context"
	"errors"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stub "plasmacloud.io/plasmacloud/test/stub/aws"
)

// account is what a stub tells of what is in it.
type account interface {
	Created() map[string]int
	Inventory() map[string]int
}

// killing is a stack whose operations are killed.
type killing struct {
	*testing.T
	cloud  byoclab.Cloud
	stub   account
	stack  string
	open   func(byoclab.Cloud) *terraform.Workspace
	finder terraform.Finder
	policy terraform.Policy
}

// while kills an apply at each of the moments, counted in resources that are made, and each time goes on elsewhere: what
// was left behind is adopted. In the end everything is there, made once; and once it is destroyed, killed at some moments
// too, there is nothing left: what had been made twice would still be.
func (k killing) while(applying, destroying []int) {
	k.Helper()
	workspace := k.open(k.cloud)
	for _, after := range applying {
		k.cloud.Killed(k.T, workspace, k.stack, terraform.PlanOptions{}, after)
		k.cloud = k.cloud.Elsewhere(k.T)
		workspace = k.open(k.cloud)
		adopted, err := workspace.Adopt(k.Context(), k.finder)
		if err != nil {
			k.Fatal(err)
		}
		k.Logf("killed after %d, adopted %v", after, adopted)
	}
	if plan := byoclab.Apply(k.T, workspace, k.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectReplace)+plan.Count(terraform.EffectDestroy) > 0 {
		k.Errorf("what was adopted is not as it was made:\n%s", plan)
	}
	there := k.stub.Inventory()
	for kind, made := range k.stub.Created() {
		if there[kind] < made {
			k.Errorf("%d %s were made, and %d are there", made, kind, there[kind])
		}
	}
	k.policy.Consent = []string{"*"}
	for _, after := range destroying {
		k.cloud.Killed(k.T, workspace, k.stack, terraform.PlanOptions{Destroy: true}, after)
		k.cloud = k.cloud.Elsewhere(k.T)
		workspace = k.open(k.cloud)
		if _, err := workspace.Adopt(k.Context(), k.finder); err != nil { // a deployer looks for what is left behind before any operation
			k.Fatal(err)
		}
	}
	byoclab.Apply(k.T, workspace, k.policy, terraform.PlanOptions{Destroy: true})
	if err := workspace.Close(); err != nil {
		k.Error(err)
	}
}

// empty checks that a stub is.
func empty(t *testing.T, stub account) {
	t.Helper()
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

func (s *inAWS) killing(stack string, open func() *terraform.Workspace) killing {
	return killing{T: s.T, cloud: s.cloud, stub: s.stub, stack: stack, finder: aws.Finder(tags{s.stub}), policy: s.policy, open: func(cloud byoclab.Cloud) *terraform.Workspace {
		s.cloud = cloud
		return open()
	}}
}

func TestAKilledNetworkInAWS(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	options := aws.NetworkOptions{InterfaceEndpoints: []string{"sts"}}
	s.killing("team.network", func() *terraform.Workspace { return s.network("v1.1.0", options) }).while([]int{0, 12, 10}, []int{5})
	empty(t, s.stub)
}

func TestAKilledClusterInAWS(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	network := s.network("v1.1.0", aws.NetworkOptions{NAT: aws.NATNone, NoFlowLogs: true})
	byoclab.Apply(t, network, s.policy, terraform.PlanOptions{})
	if err := network.Output(t.Context(), &s.made); err != nil {
		t.Fatal(err)
	}
	cluster := byoclab.Cluster(v1alpha1.ClusterEKS, 2)
	cluster.Spec.NodeGroups["batch"] = cluster.Spec.NodeGroups["workers"]
	elsewhere := s.killing("team.cluster", func() *terraform.Workspace {
		return s.cluster("v1.1.0", cluster, aws.ClusterOptions{Compute: aws.ComputeKarpenter, Admins: []string{"arn:aws:iam::123456789012:role/admin"}})
	})
	elsewhere.while([]int{14, 3}, []int{10})
	s.destroy(network)
}

func TestAKilledNetworkInGCP(t *testing.T) {
	t.Parallel()
	s := newGCP(t)
	k := s.killing("team.network", s.openNetwork)
	k.while([]int{0, 1}, []int{1})
	empty(t, s.stub)
}

func (s *inGCP) killing(stack string, open func() *terraform.Workspace) killing {
	account := byoclab.GCPAccount()
	finder := gcp.Finder(account.Spec.GCP.ProjectID, account.Spec.Region)
	return killing{T: s.T, cloud: s.cloud, stub: s.stub, stack: stack, finder: finder, policy: s.policy, open: func(cloud byoclab.Cloud) *terraform.Workspace {
		s.cloud = cloud
		return open()
	}}
}

func TestAKilledClusterInGCP(t *testing.T) {
	t.Parallel()
	s := newGCP(t)
	network := s.network()
	s.killing("team.cluster", func() *terraform.Workspace { return s.cluster(3, "v1.35") }).while([]int{0, 2, 1}, []int{1})
	s.destroy(network)
}

func (s *inAzure) killing(stack string, open func() *terraform.Workspace) killing {
	finder := azure.Finder(byoclab.AzureAccount().Spec.Azure.SubscriptionID)
	return killing{T: s.T, cloud: s.cloud, stub: s.stub, stack: stack, finder: finder, policy: s.policy, open: func(cloud byoclab.Cloud) *terraform.Workspace {
		s.cloud = cloud
		return open()
	}}
}

func TestAKilledNetworkInAzure(t *testing.T) {
	t.Parallel()
	s := newAzure(t)
	s.killing("team.network", s.openNetwork).while([]int{0, 2, 3}, []int{3})
	empty(t, s.stub)
}

func TestAKilledClusterInAzure(t *testing.T) {
	t.Parallel()
	s := newAzure(t)
	network := s.network()
	s.killing("team.cluster", func() *terraform.Workspace { return s.cluster(3, "v1.35") }).while([]int{0, 2}, []int{1})
	s.destroy(network)
}

// Two deployers do not work on the same stack at a time.
func TestAStackThatSomebodyElseWorksOn(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	network := s.network("v1.0.0", aws.NetworkOptions{NoFlowLogs: true})
	plan := byoclab.Plan(t, network, terraform.PlanOptions{})
	done, began := make(chan error, 1), make(chan struct{}, 1000)
	go func() {
		done <- network.Apply(t.Context(), plan, func(terraform.Event) { began <- struct{}{} })
	}()
	select {
	case <-began:
	case <-time.After(time.Minute):
		t.Fatal("apply has not begun")
	}
	mine := s.cloud
	s.cloud = mine.Elsewhere(t)
	other := s.network("v1.0.0", aws.NetworkOptions{NoFlowLogs: true})
	_, err := other.Plan(t.Context(), terraform.PlanOptions{})
	var locked *terraform.LockError
	if !errors.As(err, &locked) || locked.Operation != "Apply" {
		t.Errorf("planning while another applies: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left := byoclab.Plan(t, other, terraform.PlanOptions{}); len(left.Changes) > 0 {
		t.Errorf("afterwards there is to do\n%s", left)
	}
	if made := s.stub.Created(); made["Vpcs"] != 1 || made["Subnets"] != 9 {
		t.Errorf("it was made %v", made)
	}
	s.destroy(other)
}
