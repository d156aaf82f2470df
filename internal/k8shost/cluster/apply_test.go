package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"plasmacloud.io/plasmacloud/internal/apply"
)

func TestManifestsRenderCompletely(t *testing.T) {
	o := Objects{
		Settings:     Settings{ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10", ClusterDomain: "example.test"},
		CoreDNSImage: "registry.example/coredns:v1",
	}
	var found []string
	for _, name := range []string{"access", "settings", "coredns"} {
		objects, err := apply.Render(manifests, "manifests/"+name+".yaml", o)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if object.GetKind() == "" || object.GetName() == "" {
				t.Errorf("%s: an object without kind or name", name)
			}
			found = append(found, object.GetKind()+"/"+object.GetName())
			check(t, object, o)
		}
	}
	for _, want := range []string{"ConfigMap/k8shost-config", "Service/kube-dns", "Deployment/coredns", "Role/k8shost:settings"} {
		if !strings.Contains(strings.Join(found, " "), want) {
			t.Errorf("no %s among %v", want, found)
		}
	}
}

func check(t *testing.T, object *unstructured.Unstructured, o Objects) {
	t.Helper()
	switch object.GetKind() + "/" + object.GetName() {
	case "Service/kube-dns":
		if ip, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP"); ip != o.ClusterDNS {
			t.Errorf("the DNS service has address %q, want %q", ip, o.ClusterDNS)
		}
	case "ConfigMap/coredns":
		file, _, _ := unstructured.NestedString(object.Object, "data", "Corefile")
		if !strings.Contains(file, "kubernetes "+o.ClusterDomain) {
			t.Errorf("CoreDNS does not serve %s:\n%s", o.ClusterDomain, file)
		}
	}
}

func TestDifferencesNameTheFlags(t *testing.T) {
	ours := Settings{ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10", ClusterDomain: "cluster.local"}
	theirs := ours
	if messages := ours.Differences(theirs); len(messages) != 0 {
		t.Fatalf("equal settings differ: %v", messages)
	}
	theirs.ServiceCIDR = "10.96.0.0/12"
	messages := ours.Differences(theirs)
	if len(messages) != 1 || !strings.Contains(messages[0], "--service-cidr") || !strings.Contains(messages[0], "10.96.0.0/12") {
		t.Fatalf("Differences = %v", messages)
	}
}
