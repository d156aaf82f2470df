package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// withInput runs a command with something to read.
func (w *world) withInput(input string, args ...string) result {
	var out, err buffer
	code := w.start(w.t.Context(), input, &out, &err, args...)
	return result{out.String(), err.String(), code}
}

func TestDeletionIsConfirmedOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.terminal.In, w.terminal.Err = true, true
	for _, answer := range []string{"", "n\n", "what?\n"} {
		if have := w.withInput(answer, "k8s", "delete", "dev-cluster"); have.code != 4 || have.err != "Delete cluster dev-cluster? [y/N] cloud: nothing was deleted\n" {
			t.Errorf("%q: %+v", answer, have)
		}
	}
	if have := w.withInput("n\n", "k8s", "nodegroup", "delete", "big", "web"); have.code != 4 {
		t.Errorf("%+v", have)
	}
	if have := w.run("vpc", "delete", "default", "--yes"); have.code != 0 {
		t.Errorf("%+v", have)
	}
	if have := w.withInput("yes\n", "k8s", "delete", "dev-cluster"); have.code != 0 {
		t.Errorf("%+v", have)
	}
}

func TestLoginAsksOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.remember(config.Context{Name: "fresh", Server: "https://api.invalid", IAM: w.iam.URL, CA: w.iam.ca()})
	w.terminal.In = true
	w.terminal.ReadPassword = func() (string, error) { return "open sesame", nil }
	have := w.withInput("ada@example.com\n", "login")
	if have.code != 0 || have.err != "E-mail: Password of ada@example.com: \nlogged in to fresh as ada@example.com\nchoose a project with `cloud project use`\n" {
		t.Errorf("%+v", have)
	}
	if token, err := w.store().Token("fresh"); err != nil || token.AccessToken != "access-1" || token.RefreshToken != "refresh" {
		t.Errorf("%+v %v", token, err)
	}
	w.iam.identity.Projects = w.iam.identity.Projects[:1]
	if have := w.run("login"); have.code != 0 || !strings.Contains(have.err, "logged in to fresh") || strings.Contains(have.err, "E-mail") {
		t.Errorf("the last address is not remembered: %+v", have)
	}
	if file, err := w.store().Load(); err != nil || file.Find("fresh").Project != "web" {
		t.Errorf("the only project is not chosen: %v", err)
	}
	w.terminal.ReadPassword = func() (string, error) { return "", errors.New("interrupted") }
	if have := w.run("login"); have.code != 1 || !strings.Contains(have.err, "read password: interrupted") {
		t.Errorf("%+v", have)
	}
}

func TestPasswordsAreAskedForTwice(t *testing.T) {
	w := newWorld(t)
	w.terminal.In = true
	answers := []string{"first one", "second one"}
	w.terminal.ReadPassword = func() (string, error) {
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}
	if have := w.run("user", "passwd", "ci"); have.code != 2 || !strings.Contains(have.err, "the two passwords differ") {
		t.Errorf("%+v", have)
	}
	answers = []string{"old secret", "new secret", "new secret"}
	if have := w.run("user", "passwd"); have.code != 0 {
		t.Errorf("%+v", have)
	}
	if sent := w.iam.passwords; len(sent) != 1 || sent[0].Current != "old secret" || sent[0].New != "new secret" || sent[0].User != "" {
		t.Errorf("%+v", sent)
	}
}

func TestSessionsAreRefreshed(t *testing.T) {
	w := newWorld(t)
	w.keep("home", config.Token{AccessToken: "old", RefreshToken: "refresh", ExpiresAt: noon.Add(time.Second)})
	if have := w.run("whoami", "-o", "name"); have.code != 0 || have.out != "ada\n" {
		t.Errorf("%+v", have)
	}
	if token, err := w.store().Token("home"); err != nil || token.AccessToken != "refreshed-1" || !token.ExpiresAt.Equal(noon.Add(15*time.Minute)) {
		t.Errorf("%+v %v", token, err)
	}
	if have := w.run("credential"); have.code != 0 || !strings.Contains(have.out, "refreshed-1") || w.iam.refreshed != 1 {
		t.Errorf("it was refreshed %d times: %+v", w.iam.refreshed, have)
	}
	w.keep("home", config.Token{AccessToken: "old", RefreshToken: "ended", ExpiresAt: noon})
	if have := w.run("k8s", "list"); have.code != 6 || have.err != "cloud: your session at home has ended: the session has ended\nhint: log in again with `cloud login`\n" {
		t.Errorf("%+v", have)
	}
	w.keep("home", config.Token{AccessToken: "old", ExpiresAt: noon})
	if have := w.run("k8s", "list"); have.code != 6 {
		t.Errorf("%+v", have)
	}
	w.iam.Close()
	w.keep("home", config.Token{AccessToken: "old", RefreshToken: "refresh", ExpiresAt: noon})
	if have := w.run("k8s", "list"); have.code != 1 || !strings.Contains(have.err, "refresh session: reach the identity service") || !strings.Contains(have.err, "hint: is the platform running") {
		t.Errorf("%+v", have)
	}
}

func TestLogoutForgetsEvenWhenNobodyListens(t *testing.T) {
	w := newWorld(t)
	if have := w.run("logout"); have.code != 0 || !slices.Contains(w.iam.requests, "POST /logout") {
		t.Errorf("%+v %v", have, w.iam.requests)
	}
	w.keep("home", config.Token{AccessToken: "a", RefreshToken: "b"})
	w.iam.Close()
	if have := w.run("logout"); have.code != 1 || !strings.Contains(have.err, "the session is forgotten here, but may live on") {
		t.Errorf("%+v", have)
	}
	if token, err := w.store().Token("home"); err != nil || token != (config.Token{}) {
		t.Errorf("%+v %v", token, err)
	}
}

func TestMembersKnowTheirProjects(t *testing.T) {
	w := newWorld(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "plasmacloud.io", Resource: "projects"}, "", errors.New("no"))
	w.refuse = func(verb string, object client.Object) error {
		_, project := object.(*v1alpha1.Project)
		if _, organization := object.(*v1alpha1.Organization); project || (organization && verb == "list") {
			return forbidden
		}
		return nil
	}
	if have := w.run("org", "list", "-o", "name"); have.out != "acme\n" || have.code != 0 {
		t.Errorf("%+v", have)
	}
	have := w.run("project", "list")
	if want := "NAME  ORGANIZATION  NAMESPACE     CLUSTERS  NODES  STATUS  AGE\nshop  acme          project-shop  -         -      -       -\nweb   acme          project-web   -         -      -       -\n"; have.out != want || have.code != 0 {
		t.Errorf("%+v", have)
	}
	if have := w.run("project", "use", "shop"); have.code != 0 {
		t.Errorf("%+v", have)
	}
	if have := w.run("project", "use", "shops"); have.code != 4 || !strings.Contains(have.err, `you are no member of a project "shops"; did you mean shop?`) {
		t.Errorf("%+v", have)
	}
	if have := w.run("project", "get", "web"); have.code != 4 || !strings.Contains(have.err, "hint: `cloud whoami`") {
		t.Errorf("%+v", have)
	}
	w.iam.Close()
	for _, noun := range []string{"project", "org"} {
		if have := w.run(noun, "list"); have.code != 4 {
			t.Errorf("%+v", have)
		}
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	w := newWorld(t)
	colored := func() (table, progress bool) {
		have := w.run("k8s", "list")
		shown := w.run("task", "watch", "dev-cluster-create-1")
		return strings.Contains(have.out, "\x1b[32mRUNNING"), strings.Contains(shown.err, "\x1b[32m✓")
	}
	if table, progress := colored(); table || progress {
		t.Error("there are colours without a terminal")
	}
	w.terminal.Out, w.terminal.Err = true, true
	if table, progress := colored(); !table || !progress {
		t.Error("there are no colours on a terminal")
	}
	w.env["NO_COLOR"] = "1"
	if table, progress := colored(); table || progress {
		t.Error("NO_COLOR is not heeded")
	}
	w.env["NO_COLOR"], w.env["TERM"] = "", "dumb"
	if have := w.run("task", "watch", "dev-cluster-create-1"); strings.Contains(have.err, "\x1b") {
		t.Errorf("%q", have.err)
	}
}

func TestRefusalsOfTheAPIAreExplained(t *testing.T) {
	w := newWorld(t)
	clusters := schema.GroupResource{Group: "plasmacloud.io", Resource: "clusters"}
	w.refuse = func(verb string, object client.Object) error {
		switch verb + " " + object.GetName() {
		case "create taken":
			return apierrors.NewAlreadyExists(clusters, "taken")
		case "create wrong":
			return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Field: "spec", Message: `Invalid value: "object": spec.host: this is no host name; it looks like dev.example.com`}},
			}}}
		case "delete dev-cluster":
			refusal := apierrors.NewForbidden(clusters, "dev-cluster", errors.New("x"))
			refusal.ErrStatus.Message = `admission webhook "validate" denied the request: it is protected from deletion`
			return refusal
		case "patch big":
			return apierrors.NewConflict(clusters, "big", errors.New("changed"))
		}
		return nil
	}
	for line, want := range map[string]result{
		"k8s create taken":       {"", "cloud: there is a cluster \"taken\" already\nhint: choose another name, or delete it first\n", 4},
		"k8s create wrong":       {"", "cloud: create cluster wrong: spec.host: this is no host name; it looks like dev.example.com\n", 4},
		"k8s delete dev-cluster": {"", "cloud: delete cluster dev-cluster: it is protected from deletion\n", 4},
		"k8s scale big --group web --replicas 3": {"", "cloud: change node group web of cluster big: Operation cannot be fulfilled on clusters.plasmacloud.io \"big\": changed\n" +
			"hint: it was changed by somebody else at the same time; try again\n", 1},
	} {
		if have := w.run(strings.Fields(line)...); have != want {
			t.Errorf("%s: %+v", line, have)
		}
	}
}

func TestAnInstallationWithoutACatalogue(t *testing.T) {
	w := newWorld(t)
	if err := w.api.Delete(t.Context(), offers(t)); err != nil {
		t.Fatal(err)
	}
	if have := w.run("versions"); have.code != 3 || !strings.Contains(have.err, "this installation has no catalogue") {
		t.Errorf("%+v", have)
	}
	if have := w.run("k8s", "create", "x", "--version", "v1.29.0", "--type", "EKS"); have.code != 0 {
		t.Errorf("what cannot be checked here is the API's to check: %+v", have)
	}
}

// TestRequestsCarryTheToken talks to an API over HTTPS, as outside of tests.
func TestRequestsCarryTheToken(t *testing.T) {
	w := newWorld(t)
	var seen []string
	api := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Warning", `299 - "this is old"`)
		if r.Header.Get("Authorization") != "Bearer access-0" {
			rw.WriteHeader(http.StatusUnauthorized)
			_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`))
			return
		}
		_, _ = rw.Write([]byte(`{"kind":"ClusterList","apiVersion":"plasmacloud.io/v1alpha1","items":[{"metadata":{"name":"real"}}]}`))
	}))
	defer api.Close()
	w.remember(config.Context{Name: "home", Server: api.URL, IAM: w.iam.URL, CA: w.iam.ca(), Project: "web"})
	run := func(args ...string) result {
		var out, err buffer
		code := Run(t.Context(), session.Parts{
			In: strings.NewReader(""), Out: &out, Err: &err, Env: w.getenv, Now: func() time.Time { return noon }, Connect: session.Connect,
		}, nil, args)
		return result{out.String(), err.String(), code}
	}
	if have := run("k8s", "list", "-o", "name"); have != (result{"real\n", "Warning: this is old\n", 0}) {
		t.Errorf("%+v", have)
	}
	if want := "GET /apis/plasmacloud.io/v1alpha1/namespaces/project-web/clusters Bearer access-0"; len(seen) != 1 || seen[0] != want {
		t.Errorf("%q", seen)
	}
	w.env["PLASMACLOUD_TOKEN"] = "revoked"
	if have := run("k8s", "list"); have.code != 6 || !strings.Contains(have.err, "hint: log in with `cloud login`") {
		t.Errorf("%+v", have)
	}
	delete(w.env, "PLASMACLOUD_TOKEN")
	admin := filepath.Join(w.dir, "admin.conf")
	if err := os.WriteFile(admin, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"`+api.URL+`","insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"access-0"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if have := run("context", "add", "admin", "--kubeconfig", admin, "--project", "web"); have.code != 0 {
		t.Errorf("%+v", have)
	}
	if have := run("k8s", "list", "-o", "name"); have.code != 0 || have.out != "real\n" {
		t.Errorf("a kubeconfig instead of a login: %+v", have)
	}
	if have := run("kubeconfig", "--management"); have.code != 0 || !strings.Contains(have.out, "name: plasmacloud-admin") || !strings.Contains(have.out, "token: access-0") {
		t.Errorf("%+v", have)
	}
	if have := run("whoami"); have.code != 4 || !strings.Contains(have.err, "context admin names no identity service") {
		t.Errorf("%+v", have)
	}
	api.Close()
	if have := run("k8s", "list"); have.code != 1 || !strings.Contains(have.err, "hint: is the platform running") {
		t.Errorf("%+v", have)
	}
}
