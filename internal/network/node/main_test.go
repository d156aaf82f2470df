package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
	"plasmacloud.io/plasmacloud/internal/network/node"
	"plasmacloud.io/plasmacloud/internal/network/policy"
)

// program is the real plugin.
var program string

func TestMain(m *testing.M) { netlab.Main(m, &program) }

// cluster is a Kubernetes API without Kubernetes.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, client: fake.NewClientset()}
}

// nodesClient says what the fake clientset would say itself if it were asked.
type nodesClient struct{ corev1client.NodeInterface }

func (nodesClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c *cluster) nodes() nodesClient { return nodesClient{c.client.CoreV1().Nodes()} }

// register adds or changes a node; empty values are not known yet.
func (c *cluster) register(name, podCIDR, nodeIP string) {
	c.t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: podCIDR}}
	if podCIDR != "" {
		object.Spec.PodCIDRs = []string{podCIDR}
	}
	if nodeIP != "" {
		object.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: nodeIP},
		}
	}
	_, err := c.nodes().Create(context.Background(), object, metav1.CreateOptions{})
	if err != nil {
		_, err = c.nodes().Update(context.Background(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	if err := c.nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// host is a machine with a daemon.
type host struct {
	*netlab.Namespace
	t      *testing.T
	config node.Config
	// policies are what the daemon enforces; none by default.
	policies *policy.Sources
	stop     func()
}

func newHost(t *testing.T, name string) *host {
	t.Helper()
	namespace := netlab.New(t)
	dir := t.TempDir()
	return &host{Namespace: namespace, t: t, stop: func() {}, config: node.Config{
		NodeName: name, ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"), NetNS: namespace.Path,
		StateDir: filepath.Join(dir, "state"), CNIConfDir: filepath.Join(dir, "net.d"),
	}}
}

// start runs the daemon until stop, or the end of the test, and waits until it
// follows the API.
func (h *host) start(c *cluster) {
	h.t.Helper()
	logs := slog.New(slog.NewTextHandler(testLog{h.t, h.config.NodeName}, nil))
	daemon, err := node.New(h.config, c.nodes(), h.policies, logs)
	if err != nil {
		h.t.Fatal(err)
	}
	watches := func() int {
		count := 0
		for _, action := range c.client.Actions() {
			if action.Matches("watch", "nodes") {
				count++
			}
		}
		return count
	}
	before := watches()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- daemon.Run(ctx) }()
	h.stop = func() {
		h.stop = func() {}
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("daemon of %s: %v", h.config.NodeName, err)
		}
	}
	h.t.Cleanup(func() { h.stop() })
	eventually(h.t, "daemon follows the API", func() error {
		if watches() == before {
			return errors.New("no watch yet")
		}
		return nil
	})
}

func (h *host) conflist() string { return filepath.Join(h.config.CNIConfDir, cni.ConflistName) }

// runtime waits until the node is ready and returns a container runtime that
// has read its network configuration.
func (h *host) runtime() *netlab.Runtime {
	h.t.Helper()
	var list struct {
		CNIVersion string           `json:"cniVersion"`
		Name       string           `json:"name"`
		Plugins    []map[string]any `json:"plugins"`
	}
	eventually(h.t, "network configuration", func() error {
		data, err := os.ReadFile(h.conflist())
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &list)
	})
	config := list.Plugins[0]
	config["cniVersion"], config["name"] = list.CNIVersion, list.Name
	return &netlab.Runtime{Program: program, Node: h.Namespace, Config: config}
}

func (h *host) dataplane() *linux.Dataplane { return linux.New(h.config.StateDir) }

func (h *host) cleanup() {
	h.t.Helper()
	if err := node.Cleanup(node.Config{StateDir: h.config.StateDir, NetNS: h.config.NetNS}); err != nil {
		h.t.Fatal(err)
	}
}

type testLog struct {
	t    *testing.T
	node string
}

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("%s: %s", l.node, line)
	return len(line), nil
}

var _ io.Writer = testLog{}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// mustReach waits until a server is reached and saw the wanted address.
func mustReach(t *testing.T, what, want string, send func() (netip.Addr, error)) {
	t.Helper()
	eventually(t, what, func() error {
		got, err := send()
		if err == nil && got.String() != want {
			err = fmt.Errorf("server saw %s, want %s", got, want)
		}
		return err
	})
}
