package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/network/command"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

var program string

func TestMain(m *testing.M) { netlab.Main(m, &program) }

func run(args ...string) (string, error) {
	root := command.New()
	var output bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&output)
	root.SetErr(&output)
	err := root.Execute()
	return output.String(), err
}

func TestVersion(t *testing.T) {
	output, err := run("version")
	if err != nil || !strings.HasPrefix(output, "prismnet ") {
		t.Errorf("version printed %q, %v", output, err)
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	good := []string{
		"daemon", "--kubeconfig=/nonexistent", "--node-name=a", "--cluster-cidr=10.42.0.0/16",
		"--state-dir=/nonexistent/state", "--cni-conf-dir=/nonexistent/net.d",
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"daemon"}, "required flag"},
		{append(good, "--cluster-cidr=10.42.0.0"), "cluster-cidr"},
		{append(good, "--mtu=1"), "MTU 1"},
		{append(good, "--fly"), "unknown flag: --fly"},
		{append(good, "extra"), "unknown command"},
		{good, "read kubeconfig"},
		{[]string{"cleanup"}, "required flag"},
		{[]string{"cleanup", "--state-dir=state"}, "not an absolute path"},
	} {
		if _, err := run(test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want an error with %q", test.args, err, test.want)
		}
	}
}

// The program follows a real HTTP API, makes the node ready, leaves the network
// alone when it ends, and takes it away when asked to.
func TestDaemonAndCleanup(t *testing.T) {
	host := netlab.New(t)
	netlab.Connect(t, 1500,
		netlab.End{Namespace: host, Interface: "uplink", Address: "192.168.7.1/24"},
		netlab.End{Namespace: netlab.New(t), Interface: "eth0", Address: "192.168.7.2/24"})
	before := host.Snapshot()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	writeKubeconfig(t, kubeconfig, serveNodes(t, host))
	conflist := filepath.Join(dir, "net.d", "10-prismnet.conflist")

	daemon := exec.Command(program, "daemon", "--kubeconfig", kubeconfig, "--node-name", "a",
		"--cluster-cidr", "10.42.0.0/16", "--state-dir", filepath.Join(dir, "state"),
		"--cni-conf-dir", filepath.Dir(conflist), "--cni-bin-dir", filepath.Join(dir, "bin"))
	var logs bytes.Buffer
	daemon.Stderr = &logs
	host.Do(daemon.Start)
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	eventually(t, func() error {
		_, err := os.Stat(conflist)
		return err
	})
	eventually(t, func() error {
		if !strings.Contains(host.Snapshot(), "route 10.42.1.0/24 via 192.168.7.2") {
			return errors.New("no route to the other node")
		}
		return nil
	})
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("daemon ended with %v:\n%s", err, &logs)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "prismnet")); err != nil {
		t.Error(err)
	}
	if netlab.Difference(before, host.Snapshot()) == "" {
		t.Error("the end of the daemon was the end of the network")
	}

	host.Do(func() error {
		output, err := exec.Command(program, "cleanup", "--state-dir", filepath.Join(dir, "state")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	if diff := netlab.Difference(before, host.Snapshot()); diff != "" {
		t.Errorf("cleanup left:\n%s", diff)
	}
	if _, err := os.Stat(conflist); err == nil {
		t.Error("cleanup left the network configuration")
	}
}

// serveNodes is an API server that has two nodes and streams them.
func serveNodes(t *testing.T, host *netlab.Namespace) (url string) {
	t.Helper()
	object := func(name, podCIDR, nodeIP string) *corev1.Node {
		return &corev1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"},
			Spec:       corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}}},
		}
	}
	bookmark := object("", "", "")
	bookmark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Get("sendInitialEvents") != "true" {
			http.Error(w, "only streaming lists of nodes", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for _, event := range []map[string]any{
			{"type": "ADDED", "object": object("a", "10.42.0.0/24", "192.168.7.1")},
			{"type": "ADDED", "object": object("b", "10.42.1.0/24", "192.168.7.2")},
			{"type": "BOOKMARK", "object": bookmark},
		} {
			if err := json.NewEncoder(w).Encode(event); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	host.Do(func() (err error) {
		_ = server.Listener.Close()
		server.Listener, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	})
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func writeKubeconfig(t *testing.T, path, url string) {
	t.Helper()
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, url)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
