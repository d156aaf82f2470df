// Package translatetest is what the tests of all translations need: resources as the API would hold them with all its
// defaults, and comparison with files of golden output.
package translatetest

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Golden compares a value, as JSON, with testdata/<name>.json; with the flag -update it writes the file.
func Golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", name+".json")
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(file, got, 0o644); err != nil { //nolint:gosec // a test's golden file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// Refused checks that an error says all that it should.
func Refused(t *testing.T, name string, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: not refused", name)
		return
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Network is a network of the API's defaults.
func Network() *v1alpha1.Network {
	return &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: v1alpha1.NetworkSpec{Account: "prod", CIDR: "10.0.0.0/16", Subnets: []v1alpha1.Subnet{}}}
}

// Cluster is a cluster of the API's defaults, with a group of three nodes.
func Cluster(kind v1alpha1.ClusterType) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.ClusterSpec{
		Type: kind, Version: "v1.35", Network: "main", Access: v1alpha1.Access{Public: ptr.To(true)},
		ClusterNetwork: v1alpha1.ClusterNetwork{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: "prismnet"},
		NodeGroups:     map[string]v1alpha1.NodeGroupTemplate{"workers": Group(3)},
	}}
}

// Group is a node group of the API's defaults.
func Group(replicas int32) v1alpha1.NodeGroupTemplate {
	return v1alpha1.NodeGroupTemplate{
		MinReplicas: 0, MaxReplicas: 10, Replicas: &replicas, InstanceType: "u1.large", EphemeralStorage: ptr.To(resource.MustParse("20Gi")),
	}
}
