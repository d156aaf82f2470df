package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

var kind = v1alpha1.GroupVersion.WithKind("Cluster")

const good = `apiVersion: plasmacloud.io/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {version: v1.36, nodeGroups: {a: {minReplicas: 1, maxReplicas: 2}}}
`

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{path, "-"} {
		cluster := &v1alpha1.Cluster{}
		if err := Read(from, strings.NewReader(good), kind, cluster); err != nil || cluster.Name != "dev" || cluster.Spec.NodeGroups["a"].MaxReplicas != 2 {
			t.Errorf("%s: %+v %v", from, cluster, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for content, says := range map[string]string{
		"spec: [": "did not find expected node content",
		"{}":      "it has to be of apiVersion plasmacloud.io/v1alpha1 and kind Cluster",
		strings.Replace(good, "Cluster", "Network", 1):  `not "plasmacloud.io/v1alpha1" and "Network"`,
		strings.Replace(good, "version:", "vrsion:", 1): `unknown field "spec.vrsion"`,
		strings.Repeat("#", maxSize+1):                  "larger than any manifest",
	} {
		err := Read("-", strings.NewReader(content), kind, &v1alpha1.Cluster{})
		if err == nil || !strings.Contains(err.Error(), says) || exit.Of(err) != exit.Usage {
			t.Errorf("%.40s: %v, not %q", content, err, says)
		}
	}
	if err := Read("/does/not/exist", nil, kind, &v1alpha1.Cluster{}); exit.Of(err) != exit.Usage {
		t.Error(err)
	}
}

func TestCleanLeavesDefaultsToTheAPI(t *testing.T) {
	three, off := int32(3), false
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Spec: v1alpha1.ClusterSpec{
		Version:    "v1.36",
		Access:     v1alpha1.Access{Public: &off},
		NodeGroups: map[string]v1alpha1.NodeGroupTemplate{"workers": {MaxReplicas: 10, Replicas: &three}},
	}}
	cluster.Status.Phase = v1alpha1.PhaseRunning
	clean, err := Clean(cluster, kind)
	if err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(clean.Object)
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: plasmacloud.io/v1alpha1
kind: Cluster
metadata:
  name: dev
spec:
  access:
    public: false
  nodeGroups:
    workers:
      maxReplicas: 10
      minReplicas: 0
      replicas: 3
  version: v1.36
`
	if string(content) != want {
		t.Errorf("\n%s", content)
	}
}

func TestShowHasTheKind(t *testing.T) {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "dev", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	shown, err := Show(cluster, kind)
	if err != nil || shown["kind"] != "Cluster" || shown["apiVersion"] != "plasmacloud.io/v1alpha1" {
		t.Errorf("%v %v", shown, err)
	}
	if metadata, _ := shown["metadata"].(map[string]any); metadata["managedFields"] != nil || len(cluster.ManagedFields) != 1 {
		t.Errorf("%v", shown)
	}
}
