package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var update = flag.Bool("update", false, "write testdata/defaults.yaml anew")

// What the API server fills in is part of the API: people rely on it without writing it down.
func TestDefaults(t *testing.T) {
	const golden = "testdata/defaults.yaml"
	c, namespace := newClient(t), server.Namespace(t)
	var got bytes.Buffer
	for _, object := range manifests(t, "testdata/minimal.yaml") {
		if err := c.Create(t.Context(), in(t, c, namespace, object), client.DryRunAll); err != nil {
			t.Errorf("the least %s is rejected: %v", object.GetKind(), err)
			continue
		}
		spec, err := yaml.Marshal(map[string]any{"kind": object.GetKind(), "name": object.GetName(), "spec": object.Object["spec"]})
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("---\n")
		got.Write(spec)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("defaults are not those of %s (go test -update writes it anew):\n%s", golden, got.Bytes())
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	for kind, crd := range definitions(t) {
		root := schemaOf(crd)
		if root.Description == "" {
			t.Errorf("%s has no description", kind)
		}
		for path, schema := range declared("", root, map[string]*apiextensionsv1.JSONSchemaProps{}) {
			if path != ".metadata" && schema.Description == "" { // whose description is the API server's
				t.Errorf("%s%s has no description", kind, path)
			}
		}
	}
}

func TestNamesOfKinds(t *testing.T) {
	clients, err := discovery.NewDiscoveryClientForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := clients.ServerResourcesForGroupVersion("plasmacloud.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	short := map[string][]string{
		"Organization": {"org"}, "Project": {"proj"}, "User": {"usr"}, "AccessToken": {"token"}, "Account": {"acct"}, "Network": {"vpc", "net"},
		"Cluster": {"k8s"}, "NodeGroup": {"ng"}, "Machine": {"instance"}, "Task": {"tsk"}, "Bucket": {"bkt"},
	}
	seen := 0
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		seen++
		if !slices.Equal(resource.ShortNames, short[resource.Kind]) {
			t.Errorf("%s: short names %v, want %v", resource.Kind, resource.ShortNames, short[resource.Kind])
		}
		if !slices.Equal(resource.Categories, []string{"plasmacloud"}) {
			t.Errorf("%s: categories %v", resource.Kind, resource.Categories)
		}
	}
	if seen != len(short) {
		t.Errorf("%d kinds, want %d", seen, len(short))
	}
}

// columns are what `kubectl get` prints of an object of testdata/full.yaml with the given status.
var columns = map[string]struct {
	plural, status string
	want           []string // header=cell, without the name and age
}{
	"Organization": {"organizations", "projects: 2, used: {clusters: 3, nodes: 9}", []string{"Title=ACME", "Projects=2", "Clusters=3", "Nodes=9"}},
	"Project": {"projects", "namespace: project-shop, phase: RUNNING, used: {clusters: 1, nodes: 4}",
		[]string{"Organization=acme", "Namespace=project-shop", "Clusters=1", "Nodes=4", "Status=RUNNING"}},
	"User":        {"users", "", []string{"Kind=Person", "Email=ada@example.com", "Organization=acme", "Disabled=true"}},
	"AccessToken": {"accesstokens", "", []string{"User=ada", "Description=continuous integration", "Expires=", "Revoked=true"}},
	"Account":     {"accounts", "networks: 1, phase: RUNNING", []string{"Provider=SSH", "Region=cellar", "Networks=1", "Status=RUNNING"}},
	"Network":     {"networks", "clusters: 3, phase: RUNNING", []string{"CIDR=10.0.0.0/16", "Account=local", "Clusters=3", "Status=RUNNING"}},
	"Cluster": {"clusters", `phase: UPDATING, version: v1.36.3, nodesSummary: 2/3, endpoint: "https://dev.example.com:6443", progress: 3/7 join`,
		[]string{"Status=UPDATING", "Type=Hosted", "Version=v1.36.3", "Nodes=2/3", "Network=default", "Endpoint=https://dev.example.com:6443", "Progress=3/7 join"}},
	"NodeGroup": {"nodegroups", "replicas: 3, readyReplicas: 2, updatedReplicas: 3, phase: RUNNING",
		[]string{"Cluster=dev", "Desired=3", "Ready=2", "Type=u1.medium", "Version=v1.36.3", "Status=RUNNING"}},
	"Machine": {"machines", "address: 10.0.0.5, phase: RUNNING", []string{"Cluster=dev", "Group=workers", "Role=Worker", "Type=u1.medium", "Address=10.0.0.5", "Status=RUNNING"}},
	"Bucket":  {"buckets", "id: assets-1a2b3c, phase: RUNNING", []string{"Cluster=shop", "ID=assets-1a2b3c", "Status=RUNNING"}},
	"Task": {"tasks", "phase: Running, progress: 2/5, step: join, error: refused",
		[]string{"Operation=Create", "Kind=Cluster", "Resource=dev", "Status=Running", "Progress=2/5", "Step=join", "Reason=node dev-workers-1: it is not ready", "Error=refused"}},
}

func TestColumns(t *testing.T) {
	c, namespace := newClient(t), server.Namespace(t)
	clients, err := discovery.NewDiscoveryClientForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, object := range manifests(t, "testdata/full.yaml") {
		kind := object.GetKind()
		if done[kind] {
			continue
		}
		done[kind] = true
		want := columns[kind]
		store(t, c, in(t, c, namespace, object), "")
		report(t, c, object, want.status)
		path := "/apis/plasmacloud.io/v1alpha1/" + want.plural + "/" + object.GetName()
		if object.GetNamespace() != "" {
			path = "/apis/plasmacloud.io/v1alpha1/namespaces/" + namespace + "/" + want.plural + "/" + object.GetName()
		}
		answer, err := clients.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, object, answer, want.want)
	}
}

func report(t *testing.T, c client.Client, object *unstructured.Unstructured, status string) {
	t.Helper()
	if status == "" {
		return
	}
	var content map[string]any
	if err := yaml.Unmarshal([]byte("{"+status+"}"), &content); err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"status": content})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

func checkTable(t *testing.T, object *unstructured.Unstructured, answer []byte, want []string) {
	t.Helper()
	table := &metav1.Table{}
	if err := json.Unmarshal(answer, table); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, column := range table.ColumnDefinitions {
		cell, _ := table.Rows[0].Cells[i].(string)
		if number, ok := table.Rows[0].Cells[i].(float64); ok {
			cell = jsonOf(number)
		}
		if flag, ok := table.Rows[0].Cells[i].(bool); ok {
			cell = jsonOf(flag)
		}
		if column.Name == "Expires" {
			cell = "" // how long ago
		}
		got = append(got, column.Name+"="+cell)
	}
	if first, last := "Name="+object.GetName(), "Age="; got[0] != first || !strings.HasPrefix(got[len(got)-1], last) || !slices.Equal(got[1:len(got)-1], want) {
		t.Errorf("%s prints\n%v, want\n%v", object.GetKind(), got[1:len(got)-1], want)
	}
}

func jsonOf(value any) string {
	content, _ := json.Marshal(value)
	return string(content)
}

// distribution is the built release that the tests run on.
func distribution(t *testing.T) *release.Catalogue {
	t.Helper()
	dir := os.Getenv(release.EnvDir)
	if dir == "" {
		dir = filepath.Join("..", "..", "_output", "release")
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// kubectl runs the release's own kubectl.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	catalogue := distribution(t)
	kube, err := catalogue.Kube(catalogue.Versions()[0])
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), kube, append([]string{"kubectl", "--kubeconfig", server.Kubeconfig(t)}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

func TestKubectlExplainsAndLists(t *testing.T) {
	explained := kubectl(t, "explain", "cluster.spec.nodeGroups")
	for _, text := range []string{"NodeGroups by name: the worker nodes", "instanceType", "InstanceType is the size of the nodes, from the catalogue", "minReplicas", "Replicas is the number of nodes now"} {
		if !strings.Contains(explained, text) {
			t.Errorf("kubectl explain does not say %q:\n%s", text, explained)
		}
	}
	c, namespace := newClient(t), server.Namespace(t)
	for _, object := range manifests(t, "testdata/minimal.yaml") {
		store(t, c, in(t, c, namespace, object), "")
	}
	listed := kubectl(t, "get", "plasmacloud", "--namespace", namespace, "--output", "name")
	for _, line := range []string{
		"organization.plasmacloud.io/acme", "project.plasmacloud.io/shop", "user.plasmacloud.io/ada", "accesstoken.plasmacloud.io/ci", "account.plasmacloud.io/local",
		"network.plasmacloud.io/default", "cluster.plasmacloud.io/dev", "nodegroup.plasmacloud.io/dev-workers", "machine.plasmacloud.io/dev-workers-1", "task.plasmacloud.io/dev-create-1", "bucket.plasmacloud.io/assets",
	} {
		if !slices.Contains(strings.Fields(listed), line) {
			t.Errorf("kubectl get plasmacloud does not list %s:\n%s", line, listed)
		}
	}
}

// The cost of rules in CEL is reckoned by each version of the API server in its own way.
func TestEveryVersionOfTheReleaseAcceptsTheDefinitions(t *testing.T) {
	for _, version := range distribution(t).Versions()[1:] { // the tests run on the newest
		testapi.New(t, testapi.Options{Kubernetes: version})
	}
}
