package node_test

import (
	"net/netip"
	"testing"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

func TestTwoInstancesShareAHost(t *testing.T) {
	c, first, peer := acrossRouter(t, 1500)
	second := &host{Namespace: first.Namespace, t: t, stop: func() {}, config: newHost(t, "second").config}
	second.config.NetNS = first.config.NetNS
	second.config.ClusterCIDR = netip.MustParsePrefix("10.52.0.0/16")
	second.config.Tunnel.VNI = 4711
	other := newCluster(t)
	other.register("second", "10.52.0.0/24", "192.168.1.2")
	other.register("away", "10.52.1.0/24", "192.168.2.2")

	first.start(c)
	peer.start(c)
	far := peer.runtime().Start(t, "far", nil)
	far.ServeTCP(":80")
	alone := first.runtime().Start(t, "alone", nil)
	reach := func() (netip.Addr, error) { return alone.SendTCP(far.Address.String()+":80", 1000) }
	mustReach(t, "alone", alone.Address.String(), reach)
	before := first.Snapshot()

	second.start(other)
	guest := second.runtime().Start(t, "guest", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
	guest.ServeTCP(":80")
	mustReach(t, "beside another", alone.Address.String(), reach)
	mustReach(t, "the other's pod", "192.168.1.2", func() (netip.Addr, error) {
		return first.SendTCP(guest.Address.String()+":80", 1000)
	})
	second.stop()
	second.cleanup()
	if diff := netlab.Difference(before, first.Snapshot()); diff != "" {
		t.Errorf("the other instance left:\n%s", diff)
	}
	mustReach(t, "alone again", alone.Address.String(), reach)
}

// A machine pod is a pod of one cluster and a node of another.
func TestPodIsANodeOfAnotherCluster(t *testing.T) {
	outerCluster, outer, internet := single(t)
	outer.start(outerCluster)
	internet.ServeTCP(":443")
	outerRuntime := outer.runtime()

	inner := newCluster(t)
	var machines []*host
	for _, name := range []string{"m1", "m2"} {
		pod := outerRuntime.Start(t, name, nil)
		machine := &host{Namespace: pod.Namespace, t: t, stop: func() {}, config: newHost(t, name).config}
		machine.config.NetNS = pod.Path
		machine.config.ClusterCIDR = netip.MustParsePrefix("10.244.0.0/16")
		inner.register(name, map[string]string{"m1": "10.244.1.0/24", "m2": "10.244.2.0/24"}[name], pod.Address.String())
		machines = append(machines, machine)
	}
	var pods []*netlab.Pod
	for _, machine := range machines {
		machine.start(inner)
		pod := machine.runtime().Start(t, "pod-on-"+machine.config.NodeName, nil)
		pod.ServeTCP(":80")
		pods = append(pods, pod)
	}
	mustReach(t, "pod to pod across machines", pods[0].Address.String(), func() (netip.Addr, error) {
		return pods[0].SendTCP(pods[1].Address.String()+":80", big)
	})
	mustReach(t, "pod in a machine to the internet", "192.168.7.1", func() (netip.Addr, error) {
		return pods[0].SendTCP("192.168.7.9:443", big)
	})
	mustReach(t, "machine to the internet", "192.168.7.1", func() (netip.Addr, error) {
		return machines[1].SendTCP("192.168.7.9:443", big)
	})
	if !machines[0].hasTunnel() {
		t.Error("machines have no tunnel, though they have a gateway between them")
	}
}
