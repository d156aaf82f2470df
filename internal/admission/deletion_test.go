package admission

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
)

func TestParentsStayWhileTheyHaveChildren(t *testing.T) {
	other := elsewhere(k8s("web"), "blog")
	for name, test := range map[string]struct {
		world  []client.Object
		object client.Object
		want   []string
	}{
		"organization":                        {world: []client.Object{proj("lab", "globex", nil)}, object: org("acme", nil)},
		"organization with projects":          {world: []client.Object{proj("shop", "acme", nil), proj("blog", "acme", nil), proj("lab", "globex", nil)}, object: org("acme", nil), want: []string{`organizations.plasmacloud.io "acme" is forbidden: it still has projects: blog, shop; delete them first`}},
		"organization with users":             {world: []client.Object{person("ada", "acme", "a@b")}, object: org("acme", nil), want: []string{"it still has users: ada"}},
		"project":                             {world: []client.Object{acct("local", v1alpha1.ProviderLocal), other}, object: proj("shop", "acme", nil)},
		"project with clusters":               {world: []client.Object{k8s("dev"), vpc("default", "local", ""), other}, object: proj("shop", "acme", nil), want: []string{"it still has clusters: dev; delete them first"}},
		"project with networks":               {world: []client.Object{vpc("default", "local", "")}, object: proj("shop", "acme", nil), want: []string{"it still has networks: default"}},
		"account":                             {world: []client.Object{vpc("default", "local", "")}, object: acct("aws", v1alpha1.ProviderAWS)},
		"account with networks":               {world: []client.Object{vpc("b", "local", ""), vpc("a", "local", ""), vpc("c", "aws", "")}, object: acct("local", v1alpha1.ProviderLocal), want: []string{"it still has networks: a, b; delete them first"}},
		"network":                             {world: []client.Object{k8s("dev")}, object: vpc("other", "local", "")},
		"network with clusters":               {world: []client.Object{k8s("dev"), other}, object: vpc("default", "local", ""), want: []string{"it still has clusters: dev; delete them first"}},
		"network that is being deleted":       {world: []client.Object{k8s("dev")}, object: gone(vpc("default", "local", ""))},
		"cluster":                             {world: world(), object: k8s("dev")},
		"protected cluster":                   {world: world(), object: k8s("dev", func(s *v1alpha1.ClusterSpec) { s.DeletionProtection = true }), want: []string{`clusters.plasmacloud.io "dev" is forbidden: it is protected from deletion; set spec.deletionProtection to false first`}},
		"protected cluster that is going":     {world: world(), object: gone(k8s("dev", func(s *v1alpha1.ClusterSpec) { s.DeletionProtection = true }))},
		"cluster in a cloud with buckets":     {world: []client.Object{bkt("assets", "dev"), bkt("other", "web")}, object: k8s("dev", func(s *v1alpha1.ClusterSpec) { s.Type = v1alpha1.ClusterEKS }), want: []string{"it still has buckets: assets; delete them first"}},
		"project with buckets":                {world: []client.Object{bkt("assets", "dev")}, object: proj("shop", "acme", nil), want: []string{"it still has buckets: assets"}},
		"machine, which nobody asks about":    {object: named(&v1alpha1.Machine{}, home, "m")},
		"node group, which nobody asks about": {object: group("dev", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, validator(t, test.world...).Handle(t.Context(), deleting(t, test.object)), test.want...)
		})
	}
}

// What cannot be decided is no refusal of the user's: it is the platform's failure, and says so.
func TestFailuresAreNotRefusals(t *testing.T) {
	v := validator(t, world()...)
	v.config.Catalogue = func() (*catalogue.Catalogue, error) { return nil, errors.New("out of reach") }
	answer := v.Handle(t.Context(), creating(t, k8s("dev")))
	if answer.Allowed || answer.Result.Code != 500 || !strings.Contains(answer.Result.Message, "consult the catalogue: out of reach") {
		t.Errorf("got %v", answer.Result)
	}
	check(t, v.Handle(t.Context(), creating(t, proj("blog", "acme", nil)))) // has no need of it
	broken := creating(t, k8s("dev"))
	broken.Object.Raw = []byte("nonsense")
	if answer := validator(t).Handle(t.Context(), broken); answer.Allowed || answer.Result.Code != 500 {
		t.Errorf("got %v", answer.Result)
	}
}
