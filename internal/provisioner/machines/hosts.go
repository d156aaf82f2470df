package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// host is a machine as something to work on.
func (b *build) host(ctx context.Context, m *v1alpha1.Machine) (hostsetup.Host, error) {
	key := machine.Key{Namespace: b.Home, Cluster: b.Cluster.Name, Name: m.Name}
	client, err := b.own.Reach(ctx, b.Cluster.Namespace, m.Spec.Account, key)
	if err != nil {
		return hostsetup.Host{}, err
	}
	return hostsetup.Host{Client: client, Name: m.Name, Address: m.Status.Address}, nil
}

// describe is what all hosts of the cluster have in common.
func (b *build) describe(ctx context.Context) (hostsetup.Cluster, error) {
	_, version, err := b.Offered()
	if err != nil {
		return hostsetup.Cluster{}, err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return hostsetup.Cluster{}, err
	}
	described := describeCluster(b.Cluster, e, b.Home, version)
	join, err := b.ReadJoin(ctx)
	if err != nil {
		return hostsetup.Cluster{}, err
	}
	if join != nil {
		described.CA = join.CA
	}
	if b.own.Firewall != nil {
		described.Firewall = b.own.Firewall(b.Cluster)
	}
	return described, nil
}

// describeCluster says what all hosts of a cluster have in common, but for its authority and its security group.
func describeCluster(c *v1alpha1.Cluster, e base.Endpoint, home, version string) hostsetup.Cluster {
	network := c.Spec.ClusterNetwork
	sans := []string{
		e.Service.String(), base.ServiceName, base.ServiceName + "." + home,
		base.ServiceName + "." + home + ".svc", base.ServiceName + "." + home + ".svc.cluster.local",
	}
	if e.Host != "" {
		sans = append(sans, e.Host)
	}
	return hostsetup.Cluster{
		Name: c.Name, Version: version, Endpoint: net.JoinHostPort(e.Address.String(), strconv.Itoa(e.Port())), SANs: sans,
		Network: hostsetup.Network{PodCIDR: network.PodCIDR, ServiceCIDR: network.ServiceCIDR, Domain: network.Domain, CNI: network.CNI},
		HA:      c.Spec.ControlPlane.Replicas > 1,
	}
}

// prepareMembers prepares the machines that are in the control plane: of a new one, the one that it begins with.
func (b *build) prepareMembers(ctx context.Context) error {
	return b.prepareHosts(ctx, func(member bool) bool { return member })
}

// prepareOthers prepares the machines that are to join it.
func (b *build) prepareOthers(ctx context.Context) error {
	return b.prepareHosts(ctx, func(member bool) bool { return !member })
}

// prepareHosts looks at machines of the control plane and installs what they need, on all at once.
func (b *build) prepareHosts(ctx context.Context, which func(member bool) bool) error {
	distribution, err := b.distribution()
	if err != nil {
		return err
	}
	described, err := b.describe(ctx)
	if err != nil {
		return err
	}
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return err
	}
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	machines = slices.DeleteFunc(machines, func(m v1alpha1.Machine) bool { return !which(isMember(members, m.Name)) })
	report := b.reporter()
	return b.Unless(ctx, func(ctx context.Context) error {
		return b.onAll(ctx, machines, func(ctx context.Context, host hostsetup.Host, _ *v1alpha1.Machine) error {
			err := distribution.Prepare(ctx, host, described, hostsetup.ControlPlane, func(what string) { report(host.Name, what) })
			if errors.Is(err, hostsetup.ErrPreflight) {
				return task.Permanent(err) // nothing was changed, and nothing changes by itself
			}
			return err
		})
	})
}

// onAll works on several machines at once, and returns everything that went wrong.
func (b *build) onAll(ctx context.Context, machines []v1alpha1.Machine, do func(ctx context.Context, host hostsetup.Host, m *v1alpha1.Machine) error) error {
	problems := make([]error, len(machines))
	var work sync.WaitGroup
	for i := range machines {
		work.Go(func() {
			host, err := b.host(ctx, &machines[i])
			if err == nil {
				err = do(ctx, host, &machines[i])
			}
			problems[i] = err
		})
	}
	work.Wait()
	return errors.Join(problems...)
}

// reporter tells people what is done on which machine; the last word of each counts.
func (b *build) reporter() func(host, what string) {
	return func(host, what string) {
		b.Scope.Log.Debug("on a machine", "machine", host, "doing", what)
		b.Scope.Report("%s: %s", host, what)
	}
}

// named finds a machine by its name.
func named(machines []v1alpha1.Machine, name string) (*v1alpha1.Machine, error) {
	for i := range machines {
		if machines[i].Name == name {
			return &machines[i], nil
		}
	}
	return nil, fmt.Errorf("machine %s of the control plane is gone", name)
}
