package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// check compares the pod's interface with what ADD made it.
func (o *operation) check(ctx context.Context) error {
	network, err := o.config.network()
	if err != nil {
		return err
	}
	want, err := o.previousAddress()
	if err != nil {
		return err
	}
	return o.locked(ctx, func(session *ipam.Session) error {
		leases, err := session.Find(o.key())
		if err != nil {
			return err
		}
		if len(leases) == 0 {
			return types.NewError(types.ErrUnknownContainer, "the pod has no address on this node", o.args.ContainerID)
		}
		lease := leases[0]
		lease.Netns = o.args.Netns
		var problems []error
		if lease.Address != want {
			problems = append(problems, fmt.Errorf("address is %s, not %s", lease.Address, want))
		}
		problems = append(problems,
			o.dataplane.Check(linux.Attachment{Lease: lease, MTU: network.MTU, NodeIP: network.NodeIP}),
			o.checkPorts(ctx, lease))
		if err := errors.Join(problems...); err != nil {
			return types.NewError(codeDamaged, "the pod's network is damaged", err.Error())
		}
		return nil
	})
}

// previousAddress is the address that ADD reported, which the runtime must hand
// back.
func (o *operation) previousAddress() (netip.Addr, error) {
	if err := version.ParsePrevResult(&o.config.PluginConf); err != nil {
		return netip.Addr{}, types.NewError(types.ErrDecodingFailure, "decode prevResult", err.Error())
	}
	if o.config.PrevResult == nil {
		return netip.Addr{}, invalid("prevResult", errors.New("value is missing"))
	}
	result, err := types100.GetResult(o.config.PrevResult)
	if err != nil {
		return netip.Addr{}, types.NewError(types.ErrDecodingFailure, "decode prevResult", err.Error())
	}
	for _, ip := range result.IPs {
		if addr, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			return addr.Unmap(), nil
		}
	}
	return netip.Addr{}, invalid("prevResult", errors.New("it has no address"))
}

func (o *operation) checkPorts(ctx context.Context, lease ipam.Lease) error {
	if len(lease.HostPorts) == 0 {
		return nil
	}
	firewall, err := o.dataplane.Firewall()
	if err != nil {
		return err
	}
	return firewall.CheckHostPorts(ctx, lease)
}
