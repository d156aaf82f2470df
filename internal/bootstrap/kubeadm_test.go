package bootstrap_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/release"
)

var update = flag.Bool("update", false, "write the golden files")

func kubeadmCluster() bootstrap.KubeadmCluster {
	return bootstrap.KubeadmCluster{
		Name: "dev", Version: "v1.36.3", Endpoint: "192.0.2.1:31234", SANs: []string{"dev.example.com", "10.43.0.77"},
		PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local",
	}
}

func kubeadmNode() bootstrap.KubeadmNode {
	return bootstrap.KubeadmNode{
		Name: "dev-0", Address: "10.42.0.7", Socket: "/run/containerd/containerd.sock", Labels: map[string]string{"size": "small", "pool": "a"},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}}, KubeletArgs: []string{"max-pods=50"},
	}
}

const (
	someToken = "abcdef.0123456789abcdef"
	someKey   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// kubeadmConfigurations are all there are, by the name of the file that holds what they should be.
func kubeadmConfigurations(t *testing.T) map[string][]byte {
	t.Helper()
	rendered := map[string][]byte{}
	keep := func(name string, content []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		rendered[name] = content
	}
	content, err := bootstrap.KubeadmInit(kubeadmCluster(), kubeadmNode(), someToken, someKey)
	keep("kubeadm-init.yaml", content, err)
	content, err = bootstrap.KubeadmJoin(kubeadmNode(), "/var/lib/plasmacloud/kubeadm/cluster.yaml", someToken, "")
	keep("kubeadm-join-worker.yaml", content, err)
	content, err = bootstrap.KubeadmJoin(kubeadmNode(), "/var/lib/plasmacloud/kubeadm/cluster.yaml", someToken, someKey)
	keep("kubeadm-join-control-plane.yaml", content, err)
	return rendered
}

func TestKubeadmConfigurationsAreAsTheyWere(t *testing.T) {
	for name, got := range kubeadmConfigurations(t) {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
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
}

// kubeadm itself reads them strictly: a field that it does not know, or in the wrong place, is an error.
func TestKubeadmTakesItsConfigurations(t *testing.T) {
	dir, err := release.Locate(os.Getenv(release.EnvDir))
	if err != nil {
		dir = filepath.Join("..", "..", "_output", "release")
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range catalogue.Versions() {
		kube, err := catalogue.Kube(version)
		if err != nil {
			t.Fatal(err)
		}
		kubeadm := filepath.Join(t.TempDir(), "kubeadm") // it goes by its name
		if err := os.Symlink(kube, kubeadm); err != nil {
			t.Fatal(err)
		}
		for name, content := range kubeadmConfigurations(t) {
			file := filepath.Join(t.TempDir(), name)
			content = []byte(strings.NewReplacer("v1.36.3", version, "/var/lib/plasmacloud/kubeadm/cluster.yaml", file).Replace(string(content)))
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if output, err := exec.Command(kubeadm, "config", "validate", "--config", file).CombinedOutput(); err != nil {
				t.Errorf("kubeadm %s, %s: %v: %s", version, name, err, output)
			}
		}
	}
}

func TestKubeadmConfigurationNeedsWhatItNeeds(t *testing.T) {
	for what, change := range map[string]func(*bootstrap.KubeadmCluster, *bootstrap.KubeadmNode){
		"endpoint":    func(c *bootstrap.KubeadmCluster, _ *bootstrap.KubeadmNode) { c.Endpoint = "192.0.2.1" },
		"pods":        func(c *bootstrap.KubeadmCluster, _ *bootstrap.KubeadmNode) { c.PodCIDR = "" },
		"services":    func(c *bootstrap.KubeadmCluster, _ *bootstrap.KubeadmNode) { c.ServiceCIDR = "10.96.0.0" },
		"version":     func(c *bootstrap.KubeadmCluster, _ *bootstrap.KubeadmNode) { c.Version = "" },
		"name":        func(_ *bootstrap.KubeadmCluster, n *bootstrap.KubeadmNode) { n.Name = "" },
		"address":     func(_ *bootstrap.KubeadmCluster, n *bootstrap.KubeadmNode) { n.Address = "dev-0" },
		"kubelet arg": func(_ *bootstrap.KubeadmCluster, n *bootstrap.KubeadmNode) { n.KubeletArgs = []string{"fly"} },
	} {
		cluster, node := kubeadmCluster(), kubeadmNode()
		change(&cluster, &node)
		if _, err := bootstrap.KubeadmInit(cluster, node, someToken, ""); err == nil {
			t.Errorf("without a good %s it is configured all the same", what)
		}
	}
	if _, err := bootstrap.KubeadmJoin(kubeadmNode(), "/f", "", ""); err == nil {
		t.Error("a node joins without a token")
	}
}

func TestWorkersKeepTheirTaintsAndControlPlanesGetOne(t *testing.T) {
	rendered := kubeadmConfigurations(t)
	for name, want := range map[string]bool{"kubeadm-init.yaml": true, "kubeadm-join-control-plane.yaml": true, "kubeadm-join-worker.yaml": false} {
		if got := strings.Contains(string(rendered[name]), "node-role.kubernetes.io/control-plane"); got != want {
			t.Errorf("%s: taint of control planes: %t", name, got)
		}
		if !strings.Contains(string(rendered[name]), "dedicated") {
			t.Errorf("%s: the node's own taint is missing", name)
		}
	}
}
