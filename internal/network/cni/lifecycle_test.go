package cni_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

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
		time.Sleep(20 * time.Millisecond)
	}
}

func leases(t *testing.T, runtime *netlab.Runtime) []ipam.Lease {
	t.Helper()
	all, err := ipam.NewStore(runtime.Config["stateDir"].(string)).Leases()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAddTwiceGivesTheSame(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := netlab.NewPod(t, "a")
	first, err := runtime.Call("ADD", pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime.Node.ServeTCP(":10250")
	before := runtime.Node.Snapshot()
	second, err := runtime.Call("ADD", pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("first ADD printed\n%s\nsecond\n%s", first, second)
	}
	// The second ADD writes the (empty) table of host ports.
	after := runtime.Node.Snapshot()
	for line := range bytes.Lines([]byte(before)) {
		if !bytes.Contains([]byte(after), bytes.TrimSpace(line)) {
			t.Errorf("second ADD removed %s", line)
		}
	}
	if _, err := pod.SendTCP(nodeIP+":10250", 10); err != nil {
		t.Error(err)
	}
}

func TestDelLeavesNothingAndCanBeRepeated(t *testing.T) {
	runtime, _ := newRuntime(t)
	// The first pod brings the gateway and the table, which stay.
	warm := runtime.Start(t, "warm", netlab.Ports(port("tcp", 1234, 1234)))
	if err := runtime.Del(warm); err != nil {
		t.Fatal(err)
	}
	before := runtime.Node.Snapshot()

	pod := runtime.Start(t, "a", netlab.Ports(port("tcp", 8080, 80)))
	for range 2 {
		if err := runtime.Del(pod); err != nil {
			t.Fatal(err)
		}
		if diff := netlab.Difference(before, runtime.Node.Snapshot()); diff != "" {
			t.Fatalf("DEL left:\n%s", diff)
		}
	}
	pod.Do(func() error {
		if _, err := netlink.LinkByName("eth0"); err == nil {
			t.Error("pod has an interface after DEL")
		}
		return nil
	})
	if left := leases(t, runtime); len(left) != 0 {
		t.Errorf("DEL left leases %v", left)
	}
}

func TestDelOfNothingSucceeds(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := netlab.NewPod(t, "never-added")
	if err := runtime.Del(pod); err != nil {
		t.Error(err)
	}
	cmd, err := runtime.Command("DEL", pod, map[string]any{"podCIDR": "nonsense", "prevResult": map[string]any{"non": "sense"}})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "CNI_NETNS=")
	if _, err := runtime.Run(cmd); err != nil {
		t.Errorf("with an empty CNI_NETNS and a broken configuration: %v", err)
	}
}

func TestDelWhenTheNamespaceIsGone(t *testing.T) {
	runtime, _ := newRuntime(t)
	pod := runtime.Start(t, "a", netlab.Ports(port("tcp", 8080, 80)))
	pod.Close()
	if err := runtime.Del(pod); err != nil {
		t.Fatal(err)
	}
	if left := leases(t, runtime); len(left) != 0 {
		t.Errorf("DEL left leases %v", left)
	}
}

func TestPodIsAddedAgainInAnotherNamespace(t *testing.T) {
	runtime, _ := newRuntime(t)
	old := runtime.Start(t, "a", nil)
	renewed := runtime.Start(t, "a", nil)
	if renewed.Address != old.Address {
		t.Errorf("address changed from %s to %s", old.Address, renewed.Address)
	}
	runtime.Node.ServeTCP(":10250")
	mustSee(t, "pod in the new namespace", renewed.Address.String())(renewed.SendTCP(nodeIP+":10250", 10))
}

func TestManyAddsAtOnce(t *testing.T) {
	runtime, _ := newRuntime(t)
	const count = 50
	pods := make([]*netlab.Pod, count)
	for i := range pods {
		pods[i] = netlab.NewPod(t, fmt.Sprintf("pod-%d", i))
	}
	inParallel(t, pods, func(pod *netlab.Pod) error { return runtime.Add(pod, nil) })
	seen := map[netip.Addr]string{}
	for _, pod := range pods {
		if other, taken := seen[pod.Address]; taken {
			t.Errorf("%s and %s both have %s", pod.ID, other, pod.Address)
		}
		if !podCIDR.Contains(pod.Address) {
			t.Errorf("%s has %s, which is not in %s", pod.ID, pod.Address, podCIDR)
		}
		seen[pod.Address] = pod.ID
	}
	runtime.Node.ServeTCP(":10250")
	inParallel(t, pods, func(pod *netlab.Pod) error {
		_, err := pod.SendTCP(nodeIP+":10250", 1000)
		return err
	})
	inParallel(t, pods, runtime.Check)
	inParallel(t, pods, runtime.Del)
	if left := leases(t, runtime); len(left) != 0 {
		t.Errorf("%d leases are left", len(left))
	}
}

func inParallel(t *testing.T, pods []*netlab.Pod, do func(*netlab.Pod) error) {
	t.Helper()
	started := time.Now()
	var group sync.WaitGroup
	for _, pod := range pods {
		group.Go(func() {
			if err := do(pod); err != nil {
				t.Errorf("%s: %v", pod.ID, err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d in %v", len(pods), time.Since(started).Round(time.Millisecond))
}

func TestAddressesRunOutAndComeBack(t *testing.T) {
	runtime, _ := newRuntime(t)
	runtime.Config["podCIDR"] = "10.42.7.0/29"
	var pods []*netlab.Pod
	for i := range 6 {
		pods = append(pods, runtime.Start(t, fmt.Sprintf("pod-%d", i), nil))
	}
	late := netlab.NewPod(t, "late")
	wantCode(t, runtime.Add(late, nil), types.ErrTryAgainLater)
	// A pod that vanished without DEL gives its address back too.
	pods[3].Close()
	eventually(t, "late pod gets the address", func() error { return runtime.Add(late, nil) })
	if late.Address != pods[3].Address {
		t.Errorf("late pod has %s, want %s", late.Address, pods[3].Address)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	link := func(n *netlab.Namespace, name string, change func(netlink.Link) error) {
		n.Do(func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return change(link)
		})
	}
	for name, damage := range map[string]func(*netlab.Runtime, *netlab.Pod){
		"node's interface deleted": func(r *netlab.Runtime, p *netlab.Pod) {
			link(r.Node, p.Result.Interfaces[0].Name, netlink.LinkDel)
		},
		"node's interface down": func(r *netlab.Runtime, p *netlab.Pod) {
			link(r.Node, p.Result.Interfaces[0].Name, netlink.LinkSetDown)
		},
		"pod's interface down": func(_ *netlab.Runtime, p *netlab.Pod) {
			link(p.Namespace, "eth0", netlink.LinkSetDown)
		},
		"route to the pod deleted": func(r *netlab.Runtime, p *netlab.Pod) {
			r.Node.Do(func() error {
				dst, err := netlink.ParseIPNet(p.Address.String() + "/32")
				if err != nil {
					return err
				}
				return netlink.RouteDel(&netlink.Route{Dst: dst, Scope: netlink.SCOPE_LINK})
			})
		},
		"pod's address deleted": func(_ *netlab.Runtime, p *netlab.Pod) {
			link(p.Namespace, "eth0", func(l netlink.Link) error {
				addr, err := netlink.ParseAddr(p.Address.String() + "/32")
				if err != nil {
					return err
				}
				return netlink.AddrDel(l, addr)
			})
		},
		"host port closed": func(r *netlab.Runtime, _ *netlab.Pod) {
			r.Node.Nft("flush ruleset")
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime, _ := newRuntime(t)
			pod := runtime.Start(t, "a", netlab.Ports(port("tcp", 8080, 80)))
			if err := runtime.Check(pod); err != nil {
				t.Fatalf("before: %v", err)
			}
			damage(runtime, pod)
			wantCode(t, runtime.Check(pod), 100)
			// What CHECK finds, ADD repairs.
			if err := runtime.Add(pod, netlab.Ports(port("tcp", 8080, 80))); err != nil {
				t.Fatal(err)
			}
			if err := runtime.Check(pod); err != nil {
				t.Errorf("after ADD: %v", err)
			}
		})
	}
}

func TestGarbageCollectionKeepsOnlyValidAttachments(t *testing.T) {
	runtime, _ := newRuntime(t)
	runtime.Config["cniVersion"] = "1.1.0"
	keep := runtime.Start(t, "keep", netlab.Ports(port("tcp", 8080, 80)))
	drop := runtime.Start(t, "drop", netlab.Ports(port("tcp", 8081, 80)))
	// A lease that a power failure has made unreadable.
	broken := filepath.Join(runtime.Config["stateDir"].(string), "ipam", "leases", "10.42.7.99.json")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Call("GC", drop, map[string]any{
		"cni.dev/valid-attachments": []map[string]string{{"containerID": "keep", "ifname": "eth0"}},
	}); err != nil {
		t.Fatal(err)
	}
	left := leases(t, runtime)
	if len(left) != 1 || left[0].ContainerID != "keep" {
		t.Errorf("leases after GC: %v", left)
	}
	if err := runtime.Check(keep); err != nil {
		t.Errorf("kept pod: %v", err)
	}
	wantCode(t, runtime.Check(drop), types.ErrUnknownContainer)
}

func TestStatusTellsWhetherTheNodeIsPrepared(t *testing.T) {
	runtime, _ := newRuntime(t)
	runtime.Config["cniVersion"] = "1.1.0"
	pod := netlab.NewPod(t, "a")
	_, err := runtime.Call("STATUS", pod, nil)
	wantCode(t, err, 50)
	if err := runtime.Add(pod, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Call("STATUS", pod, nil); err != nil {
		t.Error(err)
	}
}
