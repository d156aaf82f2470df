package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// pass brings the node to what it should be, changing only what differs. What
// pods need comes before what they can do without for a moment, and one thing
// that fails does not keep the others from being done.
func (d *Daemon) pass(ctx context.Context) error {
	if err := errors.Join(d.dataplane.EnsureHost(), d.writeRules(ctx)); err != nil {
		return err
	}
	self := d.self()
	if !self.known() {
		return nil
	}
	// The record comes before the routes that only it leads Cleanup to.
	if err := d.remember(self); err != nil {
		return err
	}
	return errors.Join(
		d.writeConflist(self),
		d.routeToPeers(self),
		d.repairPods(self),
		d.collect(ctx),
	)
}

// self is this node's place as the API tells it, or as it was when the API last
// told: a node that is deleted for a while keeps its pods.
func (d *Daemon) self() place {
	self := d.roster.self(d.config.NodeName)
	if d.record.ClusterCIDR != d.config.ClusterCIDR {
		return self
	}
	if !self.podCIDR.IsValid() {
		self.podCIDR = d.record.PodCIDR
	}
	if !self.nodeIP.IsValid() {
		self.nodeIP = d.record.NodeIP
	}
	return self
}

func (d *Daemon) remember(self place) error {
	if !contains(d.config.ClusterCIDR, self.podCIDR) {
		return fmt.Errorf("pod CIDR %s of this node is not in the cluster CIDR %s", self.podCIDR, d.config.ClusterCIDR)
	}
	current := record{
		ClusterCIDR: d.config.ClusterCIDR, PodCIDR: self.podCIDR, NodeIP: self.nodeIP, CNIConfDir: d.config.CNIConfDir,
	}
	if current == d.record {
		return nil
	}
	if err := current.save(d.config.StateDir); err != nil {
		return err
	}
	d.record = current
	d.log.Info("node has its place in the pod network", "podCIDR", self.podCIDR, "nodeIP", self.nodeIP)
	return nil
}

// writeRules writes the firewall where something asked for it. The lock keeps
// the plugin from opening host ports that would be overwritten.
func (d *Daemon) writeRules(ctx context.Context) (err error) {
	if !d.rulesStale.Swap(false) {
		return nil
	}
	defer func() {
		if err != nil {
			d.rulesStale.Store(true)
		}
	}()
	if d.firewall == nil {
		if d.firewall, err = d.dataplane.Firewall(); err != nil {
			return err
		}
	}
	if d.exemption == nil {
		if d.exemption, err = d.dataplane.ForwardExemption(); err != nil {
			return err
		}
	}
	return d.locked(ctx, func(session *ipam.Session) error {
		leases, err := session.Leases()
		if err != nil {
			return err
		}
		return errors.Join(
			d.firewall.Sync(ctx, d.config.ClusterCIDR, leases),
			d.exemption.Sync(ctx, d.config.ClusterCIDR),
			d.dropPolicies(ctx))
	})
}

// dropPolicies removes what an earlier run enforced, if this one enforces none.
func (d *Daemon) dropPolicies(ctx context.Context) (err error) {
	if d.policies != nil {
		return nil
	}
	if d.unpoliced == nil {
		if d.unpoliced, err = d.dataplane.PolicyTable(); err != nil {
			return err
		}
	}
	return d.unpoliced.Delete(ctx)
}

// writeConflist tells the container runtime, and by it the kubelet, that the
// node is ready for pods.
func (d *Daemon) writeConflist(self place) error {
	mtu := d.config.MTU
	if mtu == 0 {
		underlay, err := linux.UnderlayMTU(self.nodeIP)
		if err != nil {
			return fmt.Errorf("find MTU for pods: %w", err)
		}
		mtu = underlay
		if d.config.Tunnel.Always {
			mtu -= linux.TunnelOverhead
		}
	}
	network := cni.Network{
		StateDir: d.config.StateDir, PodCIDR: self.podCIDR, NodeIP: self.nodeIP, MTU: mtu, Policies: d.policies != nil,
	}
	conflist, err := network.Conflist()
	if err != nil {
		return err
	}
	path := filepath.Join(d.config.CNIConfDir, cni.ConflistName)
	changed, err := replaceFile(path, conflist, 0o644)
	if err != nil {
		return fmt.Errorf("write network configuration: %w", err)
	}
	if changed {
		d.log.Info("node is ready for pods", "configuration", path, "mtu", mtu)
	}
	return nil
}

// routeToPeers waits for the whole list of nodes: routes to nodes not yet heard
// of must not be taken for routes to nodes that left.
func (d *Daemon) routeToPeers(self place) error {
	if !d.roster.complete.Load() {
		return nil
	}
	peers, refused := d.roster.peers(d.config.NodeName, self, d.config.ClusterCIDR)
	if warning := strings.Join(refused, "; "); warning != d.warned {
		d.warned = warning
		if warning != "" {
			d.log.Warn("some nodes are not routed to", "reason", warning)
		}
	}
	local := linux.Local{
		NodeIP: self.nodeIP, PodCIDR: self.podCIDR, ClusterCIDR: d.config.ClusterCIDR, Tunnel: d.config.Tunnel,
	}
	if err := d.dataplane.SyncPeers(local, peers); err != nil {
		return fmt.Errorf("route to other nodes: %w", err)
	}
	if !slices.Equal(peers, d.reached) {
		d.reached = peers
		d.log.Info("routes lead to other nodes", "nodes", len(peers))
	}
	return nil
}

func (d *Daemon) repairPods(self place) error {
	leases, err := d.store.Leases()
	if err != nil {
		return err
	}
	return d.dataplane.RepairPods(leases, self.nodeIP)
}

// collect removes what pods left behind whose runtime never said goodbye.
func (d *Daemon) collect(ctx context.Context) error {
	found, err := d.dataplane.HasGarbage(d.store, d.dataplane.InUse)
	if err != nil || !found {
		return err
	}
	return d.locked(ctx, func(session *ipam.Session) error {
		released, err := d.dataplane.Collect(ctx, session, d.dataplane.InUse)
		for _, lease := range released {
			d.log.Info("released what a pod left behind", "address", lease.Address, "holder", lease.Holder())
		}
		return err
	})
}

func (d *Daemon) locked(ctx context.Context, fn func(*ipam.Session) error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	session, err := d.store.Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(session), session.Close())
}
