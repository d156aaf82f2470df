package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// step is a part of ADD that the process may die after. Every step can be
// repeated, and whatever steps were done, DEL undoes.
type step struct {
	name string
	run  func() error
}

func (o *operation) add(ctx context.Context) error {
	attachment, err := o.attach(ctx)
	if err != nil {
		return err
	}
	return types.PrintResult(o.result(attachment), o.config.CNIVersion)
}

func (o *operation) attach(ctx context.Context) (linux.Attachment, error) {
	network, err := o.config.network()
	if err != nil {
		return linux.Attachment{}, err
	}
	ports, err := o.config.hostPorts()
	if err != nil {
		return linux.Attachment{}, err
	}
	if err := o.checkNamespace(); err != nil {
		return linux.Attachment{}, err
	}
	want := ipam.Lease{Key: o.key(), Netns: o.args.Netns, Pod: o.podName(), HostPorts: ports}
	attachment := linux.Attachment{MTU: network.MTU, NodeIP: network.NodeIP}
	err = o.locked(ctx, func(session *ipam.Session) error {
		lease, created, err := o.allocate(ctx, session, want, network.PodCIDR)
		if err != nil {
			return err
		}
		attachment.Lease = lease
		err = run(o.steps(ctx, session, attachment, created))
		if err != nil && created {
			// Nobody may call DEL for a pod that never was.
			err = errors.Join(err, o.detach(ctx, session, lease))
		}
		return err
	})
	return attachment, err
}

// allocate reserves what the pod is to have.
func (o *operation) allocate(ctx context.Context, session *ipam.Session, want ipam.Lease, pool netip.Prefix) (ipam.Lease, bool, error) {
	lease, created, err := session.Allocate(want, pool)
	if errors.Is(err, ipam.ErrExhausted) || errors.Is(err, ipam.ErrPortTaken) {
		// Perhaps a pod holds them that went away without a word.
		if _, err := o.dataplane.Collect(ctx, session, o.dataplane.InUse); err != nil {
			return ipam.Lease{}, false, err
		}
		return session.Allocate(want, pool)
	}
	return lease, created, err
}

// steps brings the kernel to what the lease says.
func (o *operation) steps(ctx context.Context, session *ipam.Session, a linux.Attachment, created bool) []step {
	steps := []step{
		// The daemon does this too, but after a reboot the first pod may come first.
		{"prepare node", o.dataplane.EnsureHost},
	}
	if o.config.Policies {
		// The node daemon, which the kernel tells of it, opens the pod as far as its
		// policies allow: mostly long before the pod's first program runs.
		steps = append(steps, step{"close the pod", func() error { return o.dataplane.Quarantine(ctx, a.Address) }})
	}
	steps = append(steps,
		step{"create interface", func() error { return o.dataplane.CreateVeth(a) }},
		step{"configure node", func() error { return o.dataplane.ConfigureHost(a) }},
		step{"configure pod", func() error { return o.dataplane.ConfigurePod(a) }},
		step{"wait for link", func() error { return o.dataplane.AwaitLink(ctx, a) }},
	)
	// Most pods have no host ports and are spared the way to the firewall; one
	// that is added again may have had some.
	if len(a.HostPorts) > 0 || !created {
		steps = append(steps, step{"open host ports", func() error { return o.openPorts(ctx, session, a.Lease) }})
	}
	return steps
}

func run(steps []step) error {
	for _, s := range steps {
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// openPorts leads host ports to the pod.
func (o *operation) openPorts(ctx context.Context, session *ipam.Session, lease ipam.Lease) error {
	firewall, err := o.dataplane.Firewall()
	if err != nil {
		return err
	}
	leases, err := session.Leases()
	if err != nil {
		return err
	}
	if err := firewall.SyncHostPorts(ctx, leases); err != nil {
		return err
	}
	return o.dataplane.ForgetFlows(lease)
}

// detach undoes a lease's steps, and then the lease.
func (o *operation) detach(ctx context.Context, session *ipam.Session, lease ipam.Lease) error {
	if err := o.dataplane.Detach(lease.Key); err != nil {
		return err
	}
	return o.dataplane.Release(ctx, session, lease)
}

func (o *operation) result(a linux.Attachment) *types100.Result {
	gateway := net.IP(linux.Gateway().AsSlice())
	hostMAC, podMAC := o.dataplane.MACs(a.Address)
	return &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: o.dataplane.HostInterface(a.Key), Mac: hostMAC.String(), Mtu: a.MTU},
			{Name: a.IfName, Mac: podMAC.String(), Mtu: a.MTU, Sandbox: a.Netns},
		},
		IPs: []*types100.IPConfig{{
			Interface: types100.Int(1),
			Address:   net.IPNet{IP: a.Address.AsSlice(), Mask: net.CIDRMask(a.Address.BitLen(), a.Address.BitLen())},
			Gateway:   gateway,
		}},
		Routes: []*types.Route{{
			Dst: net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, GW: gateway,
		}},
		DNS: o.config.DNS,
	}
}
