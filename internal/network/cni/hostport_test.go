package cni_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

func port(protocol string, host, container int) map[string]any {
	return map[string]any{"protocol": protocol, "hostPort": host, "containerPort": container}
}

func TestHostPortLeadsToThePodFromEverywhere(t *testing.T) {
	runtime, outside := newRuntime(t)
	protect(t, runtime)
	web := runtime.Start(t, "web", netlab.Ports(port("tcp", 8080, 80), port("udp", 5353, 53), port("tcp", 0, 443)))
	web.ServeTCP(":80")
	web.ServeUDP(":53")
	client := runtime.Start(t, "client", nil)

	mustSee(t, "from outside", outsideIP)(outside.SendTCP(nodeIP+":8080", 1<<20))
	mustSee(t, "from outside by UDP", outsideIP)(outside.SendUDP(nodeIP+":5353", 1000))
	mustSee(t, "from the node by its address", nodeIP)(runtime.Node.SendTCP(nodeIP+":8080", 1<<20))
	mustSee(t, "from the node by localhost", nodeIP)(runtime.Node.SendTCP("127.0.0.1:8080", 1<<20))
	mustSee(t, "from the node by localhost and UDP", nodeIP)(runtime.Node.SendUDP("127.0.0.1:5353", 1000))
	mustSee(t, "from another pod", client.Address.String())(client.SendTCP(nodeIP+":8080", 1<<20))
	mustSee(t, "from the pod itself", nodeIP)(web.SendTCP(nodeIP+":8080", 1<<20))

	if err := runtime.Check(web); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := runtime.Del(web); err != nil {
		t.Fatal(err)
	}
	if !outside.BlockedTCP(nodeIP + ":8080") {
		t.Error("host port is open after DEL")
	}
	if rules := runtime.Node.Snapshot(); strings.Contains(rules, web.Address.String()) {
		t.Errorf("DEL left traces of the pod:\n%s", rules)
	}
}

func TestHostPortOnOneAddressOnly(t *testing.T) {
	runtime, outside := newRuntime(t)
	protect(t, runtime)
	for name, mapping := range map[string]struct {
		hostIP   string
		port     int
		outside  bool
		loopback bool
	}{
		"node":     {nodeIP, 8081, true, false},
		"loopback": {"127.0.0.1", 8082, false, true},
		"any":      {"0.0.0.0", 8083, true, true},
	} {
		m := port("TCP", mapping.port, 80)
		m["hostIP"] = mapping.hostIP
		pod := runtime.Start(t, name, netlab.Ports(m))
		pod.ServeTCP(":80")
		address := func(ip string) string {
			return netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(mapping.port)).String()
		}
		if got := !outside.BlockedTCP(address(nodeIP)); got != mapping.outside {
			t.Errorf("%s: open to outside is %v", name, got)
		}
		if got := !runtime.Node.BlockedTCP(address("127.0.0.1")); got != mapping.loopback {
			t.Errorf("%s: open on loopback is %v", name, got)
		}
	}
}

func TestHostPortIsHeldByOnePod(t *testing.T) {
	runtime, outside := newRuntime(t)
	first := runtime.Start(t, "first", netlab.Ports(port("tcp", 8080, 80)))
	second := netlab.NewPod(t, "second")
	told := wantCode(t, runtime.Add(second, netlab.Ports(port("tcp", 8080, 80))), types.ErrTryAgainLater)
	if !strings.Contains(told, "default/first") {
		t.Errorf("error does not name the holder: %s", told)
	}
	// Another protocol is another port.
	runtime.Start(t, "third", netlab.Ports(port("udp", 8080, 80)))

	// The first pod's namespace goes away and the runtime forgets to say so.
	first.Close()
	second.ServeTCP(":80")
	eventually(t, "second pod gets the port", func() error {
		return runtime.Add(second, netlab.Ports(port("tcp", 8080, 80)))
	})
	mustSee(t, "from outside", outsideIP)(outside.SendTCP(nodeIP+":8080", 10))
}

// A client that never stops sending must reach the new pod all the same.
func TestUDPFlowMovesToTheNewPod(t *testing.T) {
	runtime, outside := newRuntime(t)
	first := runtime.Start(t, "first", netlab.Ports(port("udp", 5353, 53)))
	first.ServeUDP(":53")
	socket := outside.DialUDP(nodeIP + ":5353")
	mustSee(t, "first pod", outsideIP)(netlab.ExchangeUDP(socket, 10))
	if err := runtime.Del(first); err != nil {
		t.Fatal(err)
	}
	second := runtime.Start(t, "second", netlab.Ports(port("udp", 5353, 53)))
	second.ServeUDP(":53")
	mustSee(t, "second pod", outsideIP)(netlab.ExchangeUDP(socket, 10))
}

func TestAddAgainWithOtherPortsChangesThem(t *testing.T) {
	runtime, outside := newRuntime(t)
	pod := runtime.Start(t, "pod", netlab.Ports(port("tcp", 8080, 80)))
	pod.ServeTCP(":80")
	if err := runtime.Add(pod, nil); err != nil {
		t.Fatal(err)
	}
	if !outside.BlockedTCP(nodeIP + ":8080") {
		t.Error("host port is open that the pod has no more")
	}
}
