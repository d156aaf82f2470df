package acceptance

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

const system = "plasmacloud-system"

// installation is a management API that asks a running identity service about tokens.
type installation struct {
	t       *testing.T
	api     *testapi.Server
	admin   kubernetes.Interface
	objects client.Client
	iam     string // its URL
	ca      string // file with the certificates of both
}

// install puts one together in the order in which the platform does: certificates, API server, service.
func install(t *testing.T) *installation {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	in := &installation{t: t, iam: "https://" + listener.Addr().String(), ca: filepath.Join(dir, "ca.pem")}
	leaf := authority.Client{Name: authority.ManagementClient}.Leaf()
	files := pki.New(filepath.Join(dir, "iam"), clock.RealClock{})
	_, err = files.Ensure([]pki.Leaf{leaf})
	must(t, err)
	bundle, err := pki.ReadBundle(files.Dir())
	must(t, err)
	asks, err := webhook.Config{URL: in.iam, CA: files.CAPath(pki.ClusterCA), Certificate: files.CertPath(leaf.Name), Key: files.KeyPath(leaf.Name)}.Render()
	must(t, err)
	file := filepath.Join(dir, webhook.FileName)
	must(t, os.WriteFile(file, asks, 0o600))
	in.api = testapi.New(t, testapi.Options{APIServerArgs: []string{
		"--authentication-token-webhook-config-file=" + file, "--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=100ms",
	}})
	in.admin, err = kubernetes.NewForConfig(in.api.Config())
	must(t, err)
	in.objects = connect(t, in.api.Config())
	in.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})
	record := store.NewRecord(in.admin, system, authority.SecretName, store.KindAuthority)
	quiet := slog.New(slog.DiscardHandler)
	must(t, authority.New(record, dir, clock.RealClock{}, quiet).Adopt(t.Context(), bundle))
	in.serve(listener, quiet)

	own := in.api.Config().CAData
	if len(own) == 0 {
		own, err = os.ReadFile(in.api.Config().CAFile)
		must(t, err)
	}
	must(t, os.WriteFile(in.ca, append(own, bundle.ClusterCA()...), 0o600))
	return in
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve runs the identity service until the test ends.
func (in *installation) serve(listener net.Listener, quiet *slog.Logger) {
	t := in.t
	service, err := iam.New(iam.Config{
		REST: in.api.Config(), Namespace: system, Address: listener.Addr().String(), Issuer: in.iam, Scratch: t.TempDir(),
		Password: cheap(), Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}, Logger: quiet,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.RunOn(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	deadline, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if until(deadline, func() bool { return service.Ready() == nil }) != nil {
		t.Fatal(service.Ready())
	}
}

func cheap() password.Params { return password.Params{Memory: 64, Iterations: 1, Parallelism: 1} }

// connect makes a client of all kinds there are.
func connect(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	api, err := client.New(config, client.Options{})
	must(t, err)
	must(t, v1alpha1.AddToScheme(api.Scheme()))
	return api
}

func (in *installation) create(object client.Object) {
	in.t.Helper()
	must(in.t, in.objects.Create(in.t.Context(), object))
}

// administrator makes the first one, as the installer does.
func (in *installation) administrator(name, secret string) {
	in.t.Helper()
	user := &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UserSpec{
		Kind: v1alpha1.UserPerson, Organization: "acme", Email: name + "@example.com", PlatformAdmin: true, Projects: []v1alpha1.Membership{},
	}}
	in.create(user)
	hasher, err := password.NewHasher(cheap(), 1)
	must(in.t, err)
	hash, err := hasher.Hash(in.t.Context(), secret)
	must(in.t, err)
	identities, err := store.NewIdentityClient(in.api.Config())
	must(in.t, err)
	must(in.t, store.NewWriter(identities, in.admin, system).
		SavePassword(in.t.Context(), name, directory.PasswordSecretName(user), directory.DefaultPasswordKey, hash))
}

// furnish does what the controllers of projects do.
func (in *installation) furnish(project string) {
	in.t.Helper()
	object := &v1alpha1.Project{}
	must(in.t, in.objects.Get(in.t.Context(), client.ObjectKey{Name: project}, object))
	for _, part := range rbac.Management.ForProject(object) {
		in.create(part.(client.Object))
	}
}

// visitor is a person with a home, who knows the installation.
func (in *installation) visitor(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	h.ok("context", "add", "test", "--server", in.api.URL(), "--iam", in.iam, "--ca-file", in.ca)
	return h
}

// login logs in, as soon as the service has heard of the user.
func (h *home) login(email, secret string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	var messages string
	err := until(ctx, func() bool {
		h.input = secret + "\n"
		var code int
		_, messages, code = h.run("login", "--email", email, "--password-stdin")
		return code == 0
	})
	if err != nil {
		h.t.Fatalf("%s cannot log in: %s", email, messages)
	}
}

func TestPeopleAndPrograms(t *testing.T) {
	in := install(t)
	in.create(&v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: "acme"}})
	for _, part := range rbac.Management.ForCluster() {
		in.create(part.(client.Object))
	}
	in.administrator("root", "the first password")
	root := in.visitor(t)
	root.login("root@example.com", "the first password")
	root.has(root.ok("whoami"), "platform administrator", "root@example.com", "acme")
	for _, project := range []string{"web", "shop"} {
		root.ok("project", "create", project)
		in.furnish(project)
	}
	for name, project := range map[string]string{"ada": "web", "bob": "shop"} {
		root.input = "a good password\n"
		root.ok("user", "create", name, "--email", name+"@example.com", "--member", project+"=admin", "--password-stdin")
	}
	ada, bob := in.visitor(t), in.visitor(t)
	ada.login("ada@example.com", "a good password")
	bob.login("bob@example.com", "a good password")

	// The only project is chosen, and is all there is to see.
	for person, want := range map[*home]string{ada: "web\n", bob: "shop\n", root: "shop\nweb\n"} {
		if have := person.ok("project", "list", "-o", "name"); have != want {
			t.Errorf("%q, not %q", have, want)
		}
	}
	ada.ok("vpc", "create", "default")
	ada.ok("k8s", "create", "dev", "--workers", "1", "--version", "v1.36")
	if have := ada.ok("k8s", "list", "-o", "name"); have != "dev\n" {
		t.Error(have)
	}
	for _, line := range []string{
		"k8s list --project web", "k8s list -A", "k8s get dev --project web", "k8s delete dev --project web --yes", "k8s scale dev --replicas 2 --project web",
		"k8s create mine --project web", "vpc list --project web", "task list --project web", "instance list --project web",
		"k8s events dev --project web", "k8s kubeconfig dev --project web", "project get web", "project use web", "user list", "org create evil", "token list --user ada",
	} {
		if out, messages, code := bob.run(strings.Fields(line)...); code != 4 || out != "" {
			t.Errorf("bob: cloud %s: exit code %d\n%s%s", line, code, out, messages)
		}
	}

	ada.kubectl()
	program := in.tokens(ada)
	ada.input = "a good password\nanother good password\n"
	ada.ok("user", "passwd", "--password-stdin")
	root.ok("user", "disable", "bob")
	// A revoked token, a session from before the password changed, and a disabled user: the API server forgets them all
	// at the same time.
	for _, person := range []*home{program, ada, bob} {
		person.eventually(6, "k8s list")
	}
	ada.login("ada@example.com", "another good password")
	ada.ok("k8s", "list")
	ada.ok("logout")
	if _, _, code := ada.run("k8s", "list"); code != 6 {
		t.Errorf("after logout: exit code %d", code)
	}
}

// kubectl works with the same login: it runs the command line for the token.
func (h *home) kubectl() {
	h.t.Helper()
	dir, err := release.Locate(cmp.Or(os.Getenv(release.EnvDir), "../../../_output/release"))
	must(h.t, err)
	catalogue, err := release.Open(dir)
	must(h.t, err)
	kube, err := catalogue.Kube(catalogue.Versions()[0])
	must(h.t, err)
	h.ok("kubeconfig", "--management", "--merge")
	get := func(args ...string) (string, error) {
		cmd := exec.CommandContext(h.t.Context(), kube, args...)
		cmd.Args[0] = "kubectl"
		cmd.Env = []string{"HOME=" + h.dir, asProgram + "=yes", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := get("get", "clusters", "-o", "name"); err != nil || out != "cluster.plasmacloud.io/dev\n" {
		h.t.Errorf("kubectl: %s (%v)", out, err)
	}
	if out, err := get("get", "clusters", "-n", "project-shop"); err == nil || !strings.Contains(out, "cannot list resource") {
		h.t.Errorf("kubectl reads another project: %s", out)
	}
}

// tokens are made, used and revoked. It returns the program that has one.
func (in *installation) tokens(person *home) *home {
	t := in.t
	t.Helper()
	token := strings.TrimSpace(person.ok("token", "create", "--description", "a test", "--ttl", "1h"))
	program := in.visitor(t)
	program.env = map[string]string{"PLASMACLOUD_TOKEN": token, "PLASMACLOUD_PROJECT": "web"}
	program.eventually(0, "k8s list")
	if have := program.ok("k8s", "list", "-o", "name"); have != "dev\n" {
		t.Error(have)
	}
	program.has(program.ok("credential"), token)
	name := strings.TrimSpace(person.ok("token", "list", "-o", "name"))
	person.has(person.ok("token", "list"), "a test", name)
	person.ok("token", "revoke", name)
	if _, _, code := person.run("token", "revoke", "nothing"); code != 3 {
		t.Errorf("a token that is not there: exit code %d", code)
	}
	return program
}

// eventually runs a command until it ends with an exit code: what is revoked is refused within seconds.
func (h *home) eventually(want int, line string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	var code int
	var messages string
	if until(ctx, func() bool { _, messages, code = h.run(strings.Fields(line)...); return code == want }) != nil {
		h.t.Errorf("cloud %s: exit code %d, not %d\n%s", line, code, want, messages)
	}
}
