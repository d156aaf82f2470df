package cni

import (
	"context"
	"fmt"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

// TestDiedAfterEachStep is TestKilledAtAnyMoment without luck: ADD ends after
// each of its steps in turn, and the next call finds what it left.
func TestDiedAfterEachStep(t *testing.T) {
	const config = `{"cniVersion":"1.0.0","name":"prismnet","type":"prismnet","stateDir":%q,"podCIDR":"10.42.7.0/24","mtu":1400,
		"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}}`
	for done := 0; ; done++ {
		node := netlab.New(t)
		pod := netlab.New(t)
		stateDir := t.TempDir()
		op, err := newOperation(&skel.CmdArgs{
			ContainerID: "a", IfName: "eth0", Netns: pod.Path, StdinData: fmt.Appendf(nil, config, stateDir),
		})
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		node.Do(func() error { total, err = op.addPartly(t.Context(), done); return err })
		node.Do(func() error { _, err := op.attach(t.Context()); return err })
		node.Do(func() error { return op.dataplane.Check(attachment(t, op)) })
		node.Do(func() error { _, err = op.addPartly(t.Context(), done); return err })
		node.Do(func() error { return op.del(t.Context()) })
		node.Do(func() error {
			links, err := netlink.LinkList()
			if len(links) != 1 {
				t.Errorf("died after %d of %d steps: interfaces left: %v", done, total, links)
			}
			return err
		})
		if left, err := op.store.Leases(); err != nil || len(left) != 0 {
			t.Errorf("died after %d of %d steps: leases left: %v, %v", done, total, left, err)
		}
		if done == total {
			return
		}
	}
}

// addPartly does the first steps of ADD and tells how many there are.
func (o *operation) addPartly(ctx context.Context, count int) (total int, err error) {
	network, err := o.config.network()
	if err != nil {
		return 0, err
	}
	ports, err := o.config.hostPorts()
	if err != nil {
		return 0, err
	}
	err = o.locked(ctx, func(session *ipam.Session) error {
		lease, created, err := o.allocate(ctx, session, ipam.Lease{Key: o.key(), Netns: o.args.Netns, HostPorts: ports}, network.PodCIDR)
		if err != nil {
			return err
		}
		steps := o.steps(ctx, session, linux.Attachment{Lease: lease, MTU: network.MTU}, created)
		total = len(steps)
		return run(steps[:count])
	})
	return total, err
}

func attachment(t *testing.T, op *operation) linux.Attachment {
	t.Helper()
	leases, err := op.store.Leases()
	if err != nil || len(leases) != 1 {
		t.Fatalf("leases are %v, %v", leases, err)
	}
	return linux.Attachment{Lease: leases[0], MTU: op.config.MTU}
}
