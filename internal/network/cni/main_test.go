package cni_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

// program is the real plugin.
var program string

func TestMain(m *testing.M) { netlab.Main(m, &program) }

const (
	nodeIP    = "192.168.77.2"
	outsideIP = "192.168.77.1"
	podMTU    = 1400
)

var (
	clusterCIDR = netip.MustParsePrefix("10.42.0.0/16")
	podCIDR     = netip.MustParsePrefix("10.42.7.0/24")
)

// newRuntime makes a node and a host outside, on one segment. The node has no
// firewall yet.
func newRuntime(t testing.TB) (runtime *netlab.Runtime, outside *netlab.Namespace) {
	t.Helper()
	node := netlab.New(t)
	outside = netlab.New(t)
	netlab.Connect(t, 1500,
		netlab.End{Namespace: node, Interface: "uplink", Address: nodeIP + "/24"},
		netlab.End{Namespace: outside, Interface: "eth0", Address: outsideIP + "/24"})
	return &netlab.Runtime{
		Program: program, Node: node,
		Config: map[string]any{
			"cniVersion": "1.0.0", "name": "prismnet", "type": "prismnet",
			"stateDir": t.TempDir(), "podCIDR": podCIDR.String(), "nodeIP": nodeIP, "mtu": podMTU,
		},
	}, outside
}

// protect writes the node's firewall as the daemon does.
func protect(t *testing.T, runtime *netlab.Runtime) {
	t.Helper()
	runtime.Node.Do(func() error {
		firewall, err := linux.New(runtime.Config["stateDir"].(string)).Firewall()
		if err != nil {
			return err
		}
		return firewall.Sync(t.Context(), clusterCIDR, nil)
	})
}

// wantCode checks an error's code and returns its text.
func wantCode(t *testing.T, err error, code uint) string {
	t.Helper()
	var told *types.Error
	if !errors.As(err, &told) {
		t.Fatalf("got %v, want an error of code %d", err, code)
	}
	if told.Code != code {
		t.Fatalf("got code %d (%v), want %d", told.Code, told, code)
	}
	return told.Msg + ": " + told.Details
}

func mustSee(t *testing.T, what string, want string) func(netip.Addr, error) {
	t.Helper()
	return func(got netip.Addr, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.String() != want {
			t.Fatalf("%s: server saw %s, want %s", what, got, want)
		}
	}
}
