package addons

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/testapi"
	"plasmacloud.io/plasmacloud/internal/testchart"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// definition is a kind that a chart brings along.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[3]s}
spec:
  group: %[3]s
  scope: Cluster
  names: {plural: %[1]s, singular: %[1]s, kind: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func newInstaller(t *testing.T) *Installer {
	t.Helper()
	return &Installer{
		Charts: Charts{Dir: t.TempDir(), Scratch: t.TempDir()}, Log: slog.New(slog.DiscardHandler), Patience: 20 * time.Second, Poll: 100 * time.Millisecond,
	}
}

func (i *Installer) mustInstall(t *testing.T, set Set, repository string) Outcome {
	t.Helper()
	outcome, err := i.Install(t.Context(), api.Config(), set, repository)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// content of the ConfigMap that a chart has made.
func content(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Data
}

func releases(t *testing.T, namespace, name string) int {
	t.Helper()
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Items)
}

func get(t *testing.T, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource).Get(t.Context(), name, metav1.GetOptions{})
}

var storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}

// eks is a cluster with a node group, and Karpenter.
func eks() EKS {
	var facts EKS
	facts.Region, facts.Stack = "eu-west-1", "shop.cluster.web"
	facts.Cluster.Name, facts.Cluster.NodeRoleARN, facts.Cluster.SecurityGroup = "web-1", "arn:aws:iam::1:role/web-1-node", "sg-1"
	facts.Cluster.LoadBalancerRoleARN = "arn:aws:iam::1:role/web-1-lb"
	facts.Cluster.Karpenter = &aws.KarpenterOutputs{Queue: "web-1-karpenter"}
	facts.Cluster.NodeGroups = map[string]aws.NodeGroupOutputs{"workers": {Desired: 2}}
	facts.Network.ID = "vpc-1"
	facts.Network.PrivateSubnets = map[string]aws.Placed{"private-a": {ID: "subnet-1"}, "private-b": {ID: "subnet-2"}}
	return facts
}

func TestAClusterOfEKSGetsItsAddons(t *testing.T) {
	set, err := eks().Set()
	if err != nil {
		t.Fatal(err)
	}
	i := newInstaller(t)
	// Without charts there are the classes, and it is said what is missing.
	outcome := i.mustInstall(t, set, "")
	if problem := outcome.Problem(); !strings.Contains(problem, "karpenter: the release has no such chart, and no repository is named (PLASMACLOUD_CHARTS)") || !strings.Contains(problem, "aws-load-balancer-controller: ") {
		t.Errorf("missing: %s", problem)
	}
	class, err := get(t, storageClasses, "gp3")
	if err != nil || class.Object["provisioner"] != "ebs.csi.aws.com" || class.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] != "true" {
		t.Errorf("%v, %v", class, err)
	}
	// With them, there are what they bring and what they are told to make.
	testchart.Write(t, i.Charts.Dir, "aws-load-balancer-controller", "1.13.0", nil)
	testchart.Write(t, i.Charts.Dir, "karpenter", "1.8.1", map[string]string{
		"crds/pools.yaml": fmt.Sprintf(definition, "nodepools", "NodePool", "karpenter.sh"), "crds/classes.yaml": fmt.Sprintf(definition, "ec2nodeclasses", "EC2NodeClass", "karpenter.k8s.aws"),
	})
	for range 2 { // again changes nothing
		if outcome := i.mustInstall(t, set, ""); outcome.Problem() != "" || len(outcome.Installed) != 5 {
			t.Errorf("%+v", outcome)
		}
	}
	if values := content(t, system, "karpenter")["values"]; !strings.Contains(values, `"clusterName":"web-1"`) || !strings.Contains(values, `"interruptionQueue":"web-1-karpenter"`) {
		t.Errorf("karpenter has %s", values)
	}
	if count := releases(t, system, "karpenter"); count != 1 {
		t.Errorf("%d releases", count)
	}
	made, err := get(t, schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}, "default")
	if err != nil {
		t.Fatal(err)
	}
	if role, _, _ := unstructured.NestedString(made.Object, "spec", "role"); role != "web-1-node" {
		t.Errorf("the role is %s", role)
	}
	if _, err := get(t, schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}, "default"); err != nil {
		t.Error(err)
	}
}

func TestReleasesFollowTheirCharts(t *testing.T) {
	i, namespace := newInstaller(t), api.Namespace(t)
	chart := func(value string) Set {
		return Set{Charts: []Chart{{Name: "thing", Namespace: namespace, Values: map[string]any{"colour": value}}}}
	}
	testchart.Write(t, i.Charts.Dir, "thing", "1.9.0", nil)
	testchart.Write(t, i.Charts.Dir, "thing-else", "3.0.0", nil)
	i.mustInstall(t, chart("red"), "")
	testchart.Write(t, i.Charts.Dir, "thing", "1.10.0", nil)
	i.mustInstall(t, chart("red"), "")
	if have := content(t, namespace, "thing"); have["version"] != "1.10.0" {
		t.Errorf("%v", have)
	}
	i.mustInstall(t, chart("blue"), "")
	if have := content(t, namespace, "thing"); !strings.Contains(have["values"], "blue") || releases(t, namespace, "thing") != 3 {
		t.Errorf("%v after %d releases", have, releases(t, namespace, "thing"))
	}
}

func TestAnInstallationThatWasKilledIsTakenUp(t *testing.T) {
	i, namespace := newInstaller(t), api.Namespace(t)
	testchart.Write(t, i.Charts.Dir, "thing", "1.0.0", nil)
	set := Set{Charts: []Chart{{Name: "thing", Namespace: namespace}}}
	i.mustInstall(t, set, "")
	pend(t, i, namespace, "thing")
	i.mustInstall(t, set, "")
	if count := releases(t, namespace, "thing"); count != 2 {
		t.Errorf("%d releases", count)
	}
}

func TestChartsComeFromARepository(t *testing.T) {
	t.Setenv("HOME", "/proc/nowhere") // as the daemon's is
	i, namespace, dir := newInstaller(t), api.Namespace(t), t.TempDir()
	testchart.Write(t, dir, "thing", "2.0.0", nil)
	testchart.Index(t, dir, "thing", "2.0.0")
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	set := Set{Charts: []Chart{{Name: "thing", Namespace: namespace}, {Name: "nothing", Namespace: namespace}}}
	outcome := i.mustInstall(t, set, server.URL)
	if have := content(t, namespace, "thing"); have["version"] != "2.0.0" || !strings.HasPrefix(outcome.Problem(), "nothing: the release has no such chart, and "+server.URL+" does not give it") {
		t.Errorf("%v, %+v", have, outcome)
	}
	if left, err := os.ReadDir(i.Charts.Scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAnAPIThatIsNotReachedIsSaidToBe(t *testing.T) {
	i := newInstaller(t)
	i.Patience = 0
	set := Set{Objects: []*unstructured.Unstructured{object("v1", "Namespace", nil)}}
	outcome, err := i.Install(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, set, "")
	if err != nil || !strings.Contains(outcome.Problem(), "all of them: the cluster's API is not reached from here") {
		t.Errorf("%+v, %v", outcome, err)
	}
	stranger := rest.AnonymousClientConfig(api.Config())
	if outcome, err := i.Install(t.Context(), stranger, set, ""); err != nil || len(outcome.Installed) > 0 || outcome.Problem() == "" {
		t.Errorf("%+v, %v", outcome, err)
	}
}

func TestAutoModeNeedsClassesOnly(t *testing.T) {
	facts := eks()
	facts.Cluster.NodeGroups, facts.Cluster.Karpenter = nil, nil
	set, err := facts.Set()
	if err != nil || len(set.Charts) != 0 || len(set.Objects) != 2 || set.Objects[0].Object["provisioner"] != "ebs.csi.eks.amazonaws.com" {
		t.Errorf("%+v, %v", set, err)
	}
	facts = eks()
	facts.Cluster.LoadBalancerRoleARN = ""
	if set, err := facts.Set(); err != nil || !strings.Contains(set.Charts[0].Missing, "v1.1.0") {
		t.Errorf("%+v, %v", set, err)
	}
	if _, err := get(t, storageClasses, "nothing"); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}
