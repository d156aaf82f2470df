// Package acceptance runs the command line against a real management API, from the built release: what is sent has to
// be accepted, defaulted, selected, watched and refused by the API server itself, which a fake would only pretend.
package acceptance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var server *testapi.Server

// asProgram makes the test binary the command line, for kubectl to run.
const asProgram = "ACCEPTANCE_CLOUD"

func TestMain(m *testing.M) {
	cli.Silence()
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(context.Background(), session.FromProcess(), nil, os.Args[1:]))
	}
	os.Exit(testapi.Main(m, &server))
}

// home is a user with a context for the server, and a project that exists.
type home struct {
	t       *testing.T
	dir     string
	project string
	api     client.WithWatch
	// messages are standard error of the command that runs.
	messages atomic.Pointer[safe]
	input    string            // for the next command
	env      map[string]string // besides HOME
}

func newHome(t *testing.T, project string) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir(), project: project}
	config := server.Config()
	admin := clientcmdapi.NewConfig()
	admin.Clusters["a"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	admin.AuthInfos["a"] = &clientcmdapi.AuthInfo{
		ClientCertificate: config.CertFile, ClientKey: config.KeyFile, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	admin.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	admin.CurrentContext = "a"
	if err := clientcmd.WriteToFile(*admin, filepath.Join(h.dir, "admin.conf")); err != nil {
		t.Fatal(err)
	}
	api, err := session.Connect(rest.CopyConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	h.api = api
	h.ok("context", "add", "test", "--kubeconfig", filepath.Join(h.dir, "admin.conf"), "--project", project)
	// What controllers do for a project, and for a network.
	core, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project-" + project}}); err != nil {
		t.Fatal(err)
	}
	return h
}

// program is the path of the test binary.
func program() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

type safe struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (h *home) run(args ...string) (out, messages string, code int) {
	var stdout safe
	stderr := &safe{}
	h.messages.Store(stderr)
	code = cli.Run(h.t.Context(), session.Parts{
		In: strings.NewReader(h.input), Out: &stdout, Err: stderr, Now: time.Now, Connect: session.Connect, Executable: program(),
		Env: func(name string) string {
			if name == "HOME" {
				return h.dir
			}
			return h.env[name]
		},
	}, nil, args)
	h.input = ""
	return stdout.String(), stderr.String(), code
}

// ok runs a command that has to succeed, and returns its data.
func (h *home) ok(args ...string) string {
	h.t.Helper()
	out, messages, code := h.run(args...)
	if code != 0 {
		h.t.Fatalf("cloud %s: exit code %d\n%s", strings.Join(args, " "), code, messages)
	}
	return out
}

// refused runs a command that has to be refused, in these words.
func (h *home) refused(line, says string) {
	h.t.Helper()
	_, messages, code := h.run(strings.Fields(line)...)
	if code != 4 || !strings.Contains(messages, says) {
		h.t.Errorf("cloud %s: exit code %d, and not %q but\n%s", line, code, says, messages)
	}
}

func (h *home) has(out string, parts ...string) {
	h.t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			h.t.Errorf("%q is not in\n%s", part, out)
		}
	}
}

func TestTheAPIAcceptsWhatIsSent(t *testing.T) {
	h := newHome(t, "accepted")
	h.ok("org", "create", "acme", "--display-name", "Acme Inc.", "--quota", "clusters=3,memory=64Gi")
	h.ok("project", "create", "web", "--org", "acme", "--quota", "nodes=20,vcpu=8")
	h.ok("user", "create", "ada", "--email", "ada@example.com", "--org", "acme", "--member", "web=admin", "--no-password")
	h.ok("user", "create", "ci", "--service-account", "--org", "acme", "--member", "web")
	h.ok("account", "create", "local")
	h.ok("account", "create", "lab", "--provider", "SSH", "--host", "root@10.0.0.5:2222", "--trust-on-first-use", "--secret", "key")
	h.ok("account", "create", "aws", "--provider", "AWS", "--region", "eu-west-1", "--aws-role", "arn:aws:iam::123456789012:role/x")
	h.ok("vpc", "create", "default")
	h.ok("vpc", "create", "wide", "--account", "lab", "--cidr", "10.20.0.0/16", "--subnet", "front=10.20.1.0/24,Public", "--subnet", "back=10.20.2.0/24")
	h.ok("k8s", "create", "--name", "small", "--vpc", "default", "--workers", "2", "--version", "v1.36")
	h.ok("k8s", "create", "large", "--vpc", "wide", "--type", "kubeadm", "--control-plane-replicas", "3", "--host", "large.example.com",
		"--pod-cidr", "10.244.0.0/16", "--service-cidr", "10.97.0.0/16", "--addon", "cert-manager", "--addon", "ingress-nginx",
		"--node-group", "name=web,min=1,max=5,type=u1.large,storage=50Gi,role=ingress-nginx", "--node-group", "name=db,replicas=3")

	// The API has filled in what was left out.
	h.has(h.ok("k8s", "get", "small", "-o", "yaml"), "type: Hosted", "ephemeralStorage: 20Gi", "instanceType: u1.medium", "podCIDR: 192.168.0.0/16",
		"replicas: 2", "resourcesPreset: medium", "tenancy: Dedicated", "maxSurge: 1")
	h.has(h.ok("k8s", "get", "large", "-o", "yaml"), "ephemeralStorage: 50Gi", "ephemeralStorage: 20Gi", "exposeMethod: Proxied", "host: large.example.com")
	h.has(h.ok("user", "get", "ada"), "admin  project web")

	// Lists are selected by the API.
	for want, line := range map[string]string{
		"small\n": "k8s list --vpc default -o name", "large\n": "k8s list --vpc wide -o name", "wide\n": "vpc list --account lab -o name",
		"": "instance list --cluster small -o name", "large\nsmall\n": "k8s list -o name",
	} {
		if have := h.ok(strings.Fields(line)...); have != want {
			t.Errorf("cloud %s: %q, not %q", line, have, want)
		}
	}
	h.ok("task", "list", "--cluster", "small")
	h.ok("k8s", "nodegroup", "list", "small")
	h.ok("k8s", "events", "small")

	// Changes.
	h.ok("k8s", "scale", "small", "--replicas", "12", "--max", "20")
	h.ok("k8s", "nodegroup", "add", "small", "gpu", "--replicas", "1", "--instance-type", "gn1.xlarge", "--taint", "gpu=yes:NoSchedule", "--label", "a=b", "--gpu", "nvidia.com/L40S")
	h.has(h.ok("k8s", "get", "small", "-o", "yaml"), "replicas: 12", "maxReplicas: 20", "name: nvidia.com/L40S", "effect: NoSchedule")
	h.ok("k8s", "nodegroup", "delete", "small", "gpu")
	h.ok("k8s", "repair", "small")
	h.ok("user", "disable", "ci")
	if out := h.ok("k8s", "get", "small", "-o", "yaml"); strings.Contains(out, "gpu") || !strings.Contains(out, v1alpha1.AnnotationRepair) {
		t.Error(out)
	}

	// What was exported can be applied.
	manifest := h.ok("k8s", "create", "exported", "--workers", "1", "--export")
	path := filepath.Join(h.dir, "cluster.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ok("k8s", "create", "-f", path)
	h.ok("k8s", "delete", "exported", "--force", "--wait")
	h.ok("k8s", "create", "ghost", "--dry-run=server")
	if _, _, code := h.run("k8s", "get", "ghost"); code != 3 {
		t.Errorf("a dry run made a cluster (%d)", code)
	}
}

func TestTheExamplesOfAccountsWorkAsWritten(t *testing.T) {
	h := newHome(t, "examples")
	t.Chdir(h.dir)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	if err := os.WriteFile("known_hosts", []byte("10.0.0.5 "+key+"\n[10.0.0.6]:2222 "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	private, err := remote.GenerateKey("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("id_ed25519", private, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("key.json", []byte(`{"type": "service_account"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("keys", []byte("aws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(h.ok("account", "create", "--help")) {
		line = strings.ReplaceAll(line, "~/.ssh/", "")                // which a shell would know
		line = strings.TrimSuffix(strings.TrimSpace(line), " --wait") // for nobody who looks at accounts
		if args := strings.Fields(line); len(args) > 3 && args[0] == "cloud" && args[2] == "create" && strings.HasPrefix(args[3], "--name") {
			h.ok(args[1:]...)
			ran++
		}
	}
	if ran != 5 {
		t.Errorf("%d examples were found", ran)
	}
	h.has(h.ok("account", "get", "lab", "-o", "yaml"), "hostKey: "+key, "port: 2222")
	h.refused("account create bare --provider SSH --host root@10.0.0.8", "hostKey")
}

func TestTheAPIsRefusalsAreReadable(t *testing.T) {
	h := newHome(t, "refused")
	h.ok("k8s", "create", "there", "--workers", "1")
	for line, says := range map[string]string{
		"k8s create there":                                   `there is a cluster "there" already`,
		"k8s create Upper":                                   `metadata.name`,
		"k8s create a --version latest":                      "spec.version: this is no version; it looks like v1.36 or v1.36.3",
		"k8s create a --host under_score":                    "spec.host: this is no host name",
		"k8s create a --type K3s --control-plane-replicas 2": "spec.controlPlane.replicas: a control plane on machines runs etcd",
		"k8s create a --pod-cidr 10.0.0.0/8 --service-cidr 10.1.0.0/16 --dry-run=server": "spec.clusterNetwork.serviceCIDR: it overlaps with podCIDR",
		"k8s create a --node-group name=Web":                                             "spec.nodeGroups: a group's name",
		"vpc create a --cidr 10.0.0.0/16 --subnet x=10.1.0.0/24":                         "spec.subnets: a subnet does not lie within spec.cidr",
		"account create a --provider GCP --region x":                                     "an account of provider GCP needs its project",
		"user create a --email nobody --org acme --no-password":                          "spec.email: this is no e-mail address",
		"org create Acme": "metadata.name",
	} {
		h.refused(line, says)
	}
	_, messages, _ := h.run("k8s", "create", "a", "--host", "under_score")
	if strings.Contains(messages, "Invalid value") || strings.Contains(messages, "Cluster.plasmacloud.io") {
		t.Errorf("the API's own words are in the way: %s", messages)
	}
}

func TestWaitingFollowsTheAPI(t *testing.T) {
	h := newHome(t, "waiting")
	h.ok("vpc", "create", "default")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.platform(ctx) }()
	out, messages, code := h.run("k8s", "create", "dev", "--workers", "1", "--wait", "--timeout", "50s", "-o", "name")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if code != 0 || out != "dev\n" {
		t.Errorf("%d %s\n%s", code, out, messages)
	}
	h.has(messages, "create cluster dev\n", "  1/1 prepare: ", "create cluster dev: done in ")
}

// platform does what controllers and workers do to a new cluster.
func (h *home) platform(ctx context.Context) error {
	key := client.ObjectKey{Namespace: "project-" + h.project, Name: "dev"}
	cluster := &v1alpha1.Cluster{}
	if err := until(ctx, func() bool { return h.api.Get(ctx, key, cluster) == nil }); err != nil {
		return err
	}
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: "dev-create-1", Namespace: key.Namespace},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: "dev", UID: string(cluster.UID)},
			Operation: v1alpha1.OperationCreate, Generation: cluster.Generation,
		},
	}
	if err := h.api.Create(ctx, task); err != nil {
		return err
	}
	now := metav1.Now()
	for _, phase := range []v1alpha1.TaskPhase{v1alpha1.TaskRunning, v1alpha1.TaskSucceeded} {
		task.Status.Phase, task.Status.Step = phase, "prepare"
		task.Status.Steps = []v1alpha1.StepStatus{{Name: "prepare", Phase: phase, Attempts: 1, StartedAt: &now}}
		if err := h.api.Status().Update(ctx, task); err != nil {
			return err
		}
	}
	if err := until(ctx, func() bool { return strings.Contains(h.messages.Load().String(), "prepare: done") }); err != nil {
		return err
	}
	cluster.Status.Phase, cluster.Status.ObservedGeneration = v1alpha1.PhaseRunning, cluster.Generation
	return h.api.Status().Update(ctx, cluster)
}

func until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
