//go:build e2e

package management

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// person is a user of the command line on a host, with a configuration of their own.
type person struct {
	host        *lab.Node
	config      string
	environment []string
	project     string       // the one that they work in
	client      *http.Client // of the API server, without any program in between
}

func (p *person) tryCloud(args ...string) (string, error) {
	return p.host.TryCloudWith(p.config, p.environment, "", args...)
}

func (p *person) cloud(t *testing.T, args ...string) string {
	t.Helper()
	return p.cloudWith(t, "", args...)
}

// cloudWith is cloud with something on standard input.
func (p *person) cloudWith(t *testing.T, input string, args ...string) string {
	t.Helper()
	output, err := p.host.TryCloudWith(p.config, p.environment, input, args...)
	if err != nil {
		t.Fatalf("cloud %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// refused runs a command that has to fail and to say why.
func (p *person) refused(t *testing.T, wanted string, args ...string) {
	t.Helper()
	output, err := p.tryCloud(args...)
	if err == nil || !regexp.MustCompile("(?i)"+wanted).MatchString(output) {
		t.Errorf("cloud %s: %v; want a refusal with %q in\n%s", strings.Join(args, " "), err, wanted, output)
	}
}

// context is the installation as the person's command line knows it.
func (p *person) context(t *testing.T) config.Context {
	t.Helper()
	content, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	var file config.File
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	found := file.Find(file.CurrentContext)
	if found == nil {
		t.Fatalf("no context is chosen in %s", p.config)
	}
	return *found
}

// token is what the person's kubectl shows to the API server.
func (p *person) token(t *testing.T) string {
	t.Helper()
	var credential struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(p.cloud(t, "credential")), &credential); err != nil || credential.Status.Token == "" {
		t.Fatalf("cloud credential gave none: %v", err)
	}
	return credential.Status.Token
}

// kubectl runs kubectl with the person's login.
func (p *person) kubectl(args ...string) (string, error) {
	return p.host.KubectlWithCloud(p.config, p.config+".kubeconfig", args...)
}

// makeProject makes a project with an account and a network.
func (p *person) makeProject(t *testing.T, name string) {
	t.Helper()
	p.cloud(t, "project", "create", "--name", name, "--org", "default")
	lab.Eventually(t, time.Minute, "its namespace", func() error {
		_, err := p.host.TryKubectl("get", "rolebinding", "project-admin-binding", "-n", "project-"+name)
		return err
	})
	p.cloud(t, "account", "create", "--project", name, "--name", "local", "--provider", "local")
	p.cloud(t, "vpc", "create", "--project", name, "--name", "main", "--cidr", "10.9.0.0/16")
}

// logins goes through what the administrator does with a login.
func logins(t *testing.T, admin *person) {
	if who := admin.cloud(t, "whoami"); !strings.Contains(who, "platform administrator") || !strings.Contains(who, "admin@plasmacloud.local") {
		t.Errorf("after `cloud up` the caller is\n%s", who)
	}
	if place := admin.context(t); place.Kubeconfig != "" || place.Server == "" || place.IAM == "" {
		t.Errorf("the context is at %q, with kubeconfig %q", place.Server, place.Kubeconfig)
	}
	file := filepath.Join(admin.host.Data.Path(), "platform", "admin-password")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	password, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old := admin.token(t)
	admin.cloud(t, "logout")
	admin.refused(t, "not logged in", "k8s", "list")
	if output, err := admin.host.TryCloudWith(admin.config, nil, "wrong\n", "login", "--password-stdin"); err == nil || !strings.Contains(output, "wrong e-mail address or password") {
		t.Errorf("a wrong password: %v %s", err, output)
	}
	admin.cloudWith(t, string(password), "login", "--email", "admin@plasmacloud.local", "--password-stdin")
	admin.cloud(t, "k8s", "list")
	lab.Eventually(t, 20*time.Second, "the token of the session that was left is refused", func() error {
		return admin.expect(t, old, 401, "GET", "/apis/plasmacloud.io/v1alpha1/users", "")
	})
	expire(t, admin)
	if renewed := admin.token(t); renewed == old {
		t.Error("an expired token was not refreshed")
	}
	writeKubeconfig(t, admin)
	if output, err := admin.kubectl("get", "nodes,users.plasmacloud.io"); err != nil || !strings.Contains(output, "admin@plasmacloud.local") {
		t.Errorf("kubectl with the login: %v\n%s", err, output)
	}
}

// expire makes the command line believe that its token has expired.
func expire(t *testing.T, p *person) {
	t.Helper()
	file := filepath.Join(filepath.Dir(p.config), "tokens.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]config.Token{}
	if err := yaml.Unmarshal(content, &tokens); err != nil {
		t.Fatal(err)
	}
	for name, token := range tokens {
		token.ExpiresAt = time.Now().Add(-time.Minute)
		tokens[name] = token
	}
	if content, err = yaml.Marshal(tokens); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeKubeconfig(t *testing.T, p *person) {
	t.Helper()
	if err := os.WriteFile(p.config+".kubeconfig", []byte(p.cloud(t, "kubeconfig", "--management")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// people makes two users, each the administrator of a project in the same organization, who log in.
func people(t *testing.T, admin *person) (ada, bob *person) {
	lab.Step(t, "two people with a project each", func(t *testing.T) {
		place := admin.context(t)
		ca := admin.config + ".ca"
		if err := os.WriteFile(ca, []byte(place.CA), 0o600); err != nil {
			t.Fatal(err)
		}
		admin.makeProject(t, "books")
		admin.makeProject(t, "bank")
		join := func(name, project string) *person {
			p := &person{host: admin.host, config: filepath.Join(filepath.Dir(admin.config)+"-"+name, "config.yaml"), project: project}
			secret := name + "'s password\n"
			email := name + "@example.com"
			admin.cloudWith(t, secret, "user", "create", name, "--email", email, "--org", "default", "--member", project+"=admin", "--password-stdin")
			p.cloud(t, "context", "add", "here", "--server", place.Server, "--iam", place.IAM, "--ca-file", ca)
			p.cloudWith(t, secret, "login", "--email", email, "--password-stdin")
			p.cloud(t, "k8s", "create", "--name", name+"s", "--vpc", "main", "--type", "fake", "--workers", "1", "--wait")
			writeKubeconfig(t, p)
			return p
		}
		ada, bob = join("ada", "books"), join("bob", "bank")
	})
	return ada, bob
}

// revocation keeps bob out, and leaves ada in.
func revocation(t *testing.T, admin, ada, bob *person) {
	const path = "/apis/plasmacloud.io/v1alpha1/namespaces/project-bank/clusters"
	token := bob.token(t)
	if err := bob.expect(t, token, 200, "GET", path, ""); err != nil {
		t.Fatal(err)
	}
	admin.cloud(t, "user", "disable", "bob")
	began := time.Now()
	lab.Eventually(t, 20*time.Second, "the API server refuses his token", func() error { return bob.expect(t, token, 401, "GET", path, "") })
	t.Logf("refused %.1f s after the change", time.Since(began).Seconds())
	if output, err := bob.host.TryCloudWith(bob.config, nil, "bob's password\n", "login", "--password-stdin"); err == nil {
		t.Errorf("he logged in again: %s", output)
	}
	ada.cloud(t, "k8s", "list")
}
