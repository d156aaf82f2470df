package cli

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestTokensForDeployersElsewhere(t *testing.T) {
	w := newWorld(t)
	account := func() *v1alpha1.Account {
		t.Helper()
		var account v1alpha1.Account
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "prod"}, &account); err != nil {
			t.Fatal(err)
		}
		return &account
	}
	create := []string{"account", "create", "prod", "--provider", "gcp", "--region", "europe-west1", "--gcp-project", "shop-123456", "--secret", "key"}
	if have := w.run(append(create, "--remote-deployer")...); have.code != 0 || !account().Spec.Remote() {
		t.Fatalf("%+v", have)
	}
	var tokens []string
	for range 2 {
		have := w.run("account", "deployer-token", "prod")
		token := strings.TrimSpace(have.out)
		if have.code != 0 || !strings.HasPrefix(token, "pcd_") || !account().Spec.Admits(token) || strings.Contains(have.err, token) {
			t.Fatalf("%+v", have)
		}
		tokens = append(tokens, token)
	}
	if spec := account().Spec; !spec.Admits(tokens[0]) || spec.Admits("pcd_ANOTHER") || spec.Admits("") {
		t.Errorf("%+v", spec.Deployer)
	}
	have := w.run("account", "deployer-token", "prod", "--replace")
	if spec := account().Spec; have.code != 0 || spec.Admits(tokens[0]) || spec.Admits(tokens[1]) || !spec.Admits(strings.TrimSpace(have.out)) {
		t.Errorf("%+v", spec.Deployer)
	}
	create[2] = "own"
	if have := w.run(create...); have.code != 0 {
		t.Fatalf("%+v", have)
	}
	if have := w.run("account", "deployer-token", "own"); have.code == 0 || !strings.Contains(have.err, "the platform's own deployers") {
		t.Errorf("%+v", have)
	}
}
