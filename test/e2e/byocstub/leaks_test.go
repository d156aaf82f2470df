//go:build e2e

package byocstub

import (
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// telltale is a stack in a life with trouble: killed, adopted, finished, refused, destroyed. Whatever is told of it on the
// way is kept.
type telltale struct {
	*testing.T
	cloud  byoclab.Cloud
	open   func() *terraform.Workspace
	finder terraform.Finder
	policy terraform.Policy
	revoke func(bool)
	// texts is how many texts of its state can be recognised at least. A network in Azure has none: all of it are names and IDs.
	texts int
	told  strings.Builder
}

const telltaleStack = "team.network"

// live lives it, and looks for credentials and for what is in states and plans: in the log, in what people are told, in
// arguments, and in files that others could read.
func (s *telltale) live(credentials ...string) {
	s.Helper()
	lab := s.cloud.Lab
	stop := lab.Watching(s.T)
	workspace := s.open()
	s.cloud.Killed(s.T, workspace, telltaleStack, terraform.PlanOptions{}, 1)
	if left := lab.Left(s.T); len(left) == 0 {
		s.Error("a killed operation has left nothing to look at")
	}
	if _, err := workspace.Adopt(s.Context(), s.finder); err != nil {
		s.Fatal(err)
	}
	s.apply(workspace, terraform.PlanOptions{})
	contents := lab.Contents(s.T, telltaleStack)
	s.revoke(true)
	_, err := workspace.Plan(s.Context(), terraform.PlanOptions{})
	if err == nil {
		s.Fatal("a plan with revoked credentials succeeded")
	}
	s.told.WriteString(err.Error())
	s.revoke(false)
	s.policy.Consent = []string{"*"}
	s.apply(workspace, terraform.PlanOptions{Destroy: true})
	if err := workspace.Close(); err != nil {
		s.Error(err)
	}
	if left := lab.Left(s.T); len(left) > 0 {
		s.Errorf("a stack that was closed leaves %v", left)
	}
	s.judge(stop(), contents, append(credentials, byoclab.Secret))
}

func (s *telltale) apply(workspace *terraform.Workspace, options terraform.PlanOptions) {
	s.Helper()
	plan := byoclab.Plan(s.T, workspace, options)
	if err := s.policy.Check(plan); err != nil {
		s.Fatal(err)
	}
	if err := workspace.Apply(s.Context(), plan, func(e terraform.Event) { s.told.WriteString(e.String() + "\n") }); err != nil {
		s.Fatal(err)
	}
}

func (s *telltale) judge(seen byoclab.Watch, contents, credentials []string) {
	s.Helper()
	if len(seen.Exposed) > 0 {
		s.Errorf("everybody could read %v", seen.Exposed)
	}
	if len(seen.Arguments) < 3 || len(contents) < s.texts {
		s.Errorf("too little was seen for a judgement: arguments %q, contents %q", seen.Arguments, contents)
	}
	log := s.cloud.Lab.Log.String()
	if !strings.Contains(log, telltaleStack) {
		s.Errorf("the log does not tell of the stack:\n%s", log)
	}
	places := map[string]string{"the log": log, "an argument": strings.Join(seen.Arguments, "\n"), "what people are told": s.told.String()}
	for place, text := range places {
		for _, credential := range credentials {
			if strings.Contains(text, credential) {
				s.Errorf("%s tells the credential %q", place, credential)
			}
		}
		for _, content := range append(contents, `"resource_changes"`, `"planned_values"`, `"lineage"`) {
			if strings.Contains(text, content) {
				s.Errorf("%s tells what is in the state or plan: %q", place, content)
			}
		}
	}
	s.cloud.Lab.NothingTold(s.T, append(credentials, contents...)...)
	s.Logf("%d processes, %d texts of the state, %d bytes of log", seen.Processes, len(contents), len(log))
}

func TestNothingIsToldOfAWS(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	open := func() *terraform.Workspace { return s.network("v1.1.0", aws.NetworkOptions{NAT: aws.NATNone}) }
	tale := &telltale{T: t, cloud: s.cloud, open: open, finder: aws.Finder(tags{s.stub}), policy: s.policy, revoke: s.stub.Revoke, texts: 10}
	tale.live(s.cloud.Environment["AWS_ACCESS_KEY_ID"])
	empty(t, s.stub)
}

func TestNothingIsToldOfGCP(t *testing.T) {
	t.Parallel()
	s := newGCP(t)
	account := byoclab.GCPAccount()
	tale := &telltale{T: t, cloud: s.cloud, open: s.openNetwork, finder: gcp.Finder(account.Spec.GCP.ProjectID, account.Spec.Region), policy: s.policy, revoke: s.stub.Revoke, texts: 5}
	tale.live()
	empty(t, s.stub)
}

func TestNothingIsToldOfAzure(t *testing.T) {
	t.Parallel()
	s := newAzure(t)
	tale := &telltale{T: t, cloud: s.cloud, open: s.openNetwork, finder: azure.Finder(byoclab.AzureAccount().Spec.Azure.SubscriptionID), policy: s.policy, revoke: s.stub.Revoke}
	tale.live()
	empty(t, s.stub)
}
