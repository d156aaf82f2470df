//go:build e2e

package management

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// TestExisting installs the platform onto a cluster that somebody else runs.
func TestExisting(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	host.Start(t, "server")
	admin := &person{host: host, config: host.CloudConfig()}
	kubeconfig := host.Data.AdminKubeconfig()
	files := filepath.Join(filepath.Dir(admin.config), "default")
	lab.Step(t, "without the image it says what to do", func(t *testing.T) {
		admin.refused(t, `cannot have the image plasmacloud.io/cloudd:latest[\s\S]*images import .*cloudd.tar`, "up", "--kubeconfig", kubeconfig)
	})
	lab.Step(t, "with the image it is installed, and used with the kubeconfig", func(t *testing.T) {
		importDaemon(t, l, host)
		said := admin.cloud(t, "up", "--kubeconfig", kubeconfig)
		if !strings.Contains(said, "--authentication-token-webhook-config-file=DIRECTORY/iam-webhook.yaml") || !strings.Contains(said, files) {
			t.Errorf("it does not say how users get in:\n%s", said)
		}
		if place := admin.context(t); place.Kubeconfig != kubeconfig || place.Server != "" {
			t.Errorf("the context is at %q, with kubeconfig %q", place.Server, place.Kubeconfig)
		}
		admin.cloud(t, "k8s", "create", "--name", "first", "--vpc", "default", "--type", "fake", "--workers", "1", "--wait")
		if who := admin.cloud(t, "whoami"); !strings.Contains(who, "platform administrator") {
			t.Errorf("the identity service knows the caller as\n%s", who)
		}
		admin.cloud(t, "status", "--kubeconfig", kubeconfig)
	})
	for name, flags := range map[string][]string{
		"an API server that asks lets users in":                {"--authentication-token-webhook-config-file", filepath.Join(files, "iam-webhook.yaml"), "--authentication-token-webhook-cache-ttl", "2s"},
		"one that verifies tokens by itself lets users in too": {"--kube-apiserver-arg=authentication-config=" + filepath.Join(files, "authentication.yaml")},
	} {
		lab.Step(t, name, func(t *testing.T) {
			host.Stop(t)
			host.Start(t, "server", flags...)
			admin.cloud(t, "up", "--kubeconfig", kubeconfig)
			if place := admin.context(t); place.Kubeconfig != "" || place.Server == "" {
				t.Errorf("the context is at %q, with kubeconfig %q", place.Server, place.Kubeconfig)
			}
			if list := admin.cloud(t, "k8s", "list"); !strings.Contains(list, "first") {
				t.Error(list)
			}
			writeKubeconfig(t, admin)
			if output, err := admin.kubectl("auth", "whoami"); err != nil || !strings.Contains(output, "admin@plasmacloud.local") {
				t.Errorf("kubectl with the login: %v\n%s", err, output)
			}
		})
	}
	lab.Step(t, "down leaves the cluster alone", func(t *testing.T) {
		admin.cloud(t, "k8s", "delete", "first", "--yes", "--wait")
		admin.cloud(t, "down", "--kubeconfig", kubeconfig, "--purge", "--yes")
		left := host.Kubectl(t, "get", "validatingadmissionpolicies,validatingwebhookconfigurations,clusterroles,clusterrolebindings,crds", "-o", "name")
		if strings.Contains(left, "plasmacloud") {
			t.Errorf("it left\n%s", left)
		}
		host.AwaitNodeReady(t, "host")
	})
}

// importDaemon does what the hint says.
func importDaemon(t *testing.T, l *lab.Lab, host *lab.Node) {
	t.Helper()
	ctr, err := l.Release.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(l.Release.Dir(), "images", "cloudd.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(ctr, "--address", host.Data.ContainerdSocket(), "-n", "k8s.io", "images", "import", "--local", archive).CombinedOutput()
	if err != nil {
		t.Fatalf("import the image: %v: %s", err, output)
	}
}
