package cloudd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/hostsetup/k3s"
	"plasmacloud.io/plasmacloud/internal/hostsetup/kubeadm"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/provisioner/machines"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// errNoRelease says why there are no clusters on machines.
var errNoRelease = errors.New("the daemon has no release to lay onto machines: install the platform with `cloud up` on a host of its own, or give the daemon --release-dir")

// machineClusters is what clusters on machines need of the daemon.
type machineClusters struct {
	*Daemon
	// distributions are what is done on machines, by the type of cluster; none where there is no release.
	distributions map[v1alpha1.ClusterType]hostsetup.Distribution
	installer     *hostsetup.Installer
	// byType know the steps that make them.
	byType map[v1alpha1.ClusterType]*machines.Provisioner
}

func (d *Daemon) newMachineClusters(shared base.Config) (*machineClusters, error) {
	m := &machineClusters{Daemon: d, byType: map[v1alpha1.ClusterType]*machines.Provisioner{}}
	err := m.makeDistributions()
	if err != nil {
		return nil, err
	}
	for kind, contents := range map[v1alpha1.ClusterType]machines.Contents{
		v1alpha1.ClusterKubeadm: {PodNetwork: true},
		v1alpha1.ClusterK3s:     {}, // k8shost's servers see to it themselves
	} {
		if m.byType[kind], err = machines.New(machines.Config{
			Config: shared, Type: kind, Image: d.config.Image, Contents: contents, Distribution: m.distribution, Reach: m.reach, Firewall: m.firewall,
			CheckFirewall: m.checkFirewall,
		}); err != nil {
			return nil, err
		}
	}
	// What kubeadm's cleaning ends, k8shost's has to have ended in its own way before.
	for _, kind := range []v1alpha1.ClusterType{v1alpha1.ClusterK3s, v1alpha1.ClusterKubeadm} {
		if distribution := m.distributions[kind]; distribution != nil {
			d.drivers.cleaners.add(distribution)
		}
	}
	return m, nil
}

// firewall returns what installs a cluster's security group on a machine.
func (m *machineClusters) firewall(c *v1alpha1.Cluster) func(ctx context.Context, host *remote.Client, role hostsetup.Role) error {
	return firewall(m.manager.GetAPIReader(), c) // a member that came a moment ago has to be let in
}

// checkFirewall tells what is wrong with it.
func (m *machineClusters) checkFirewall(ctx context.Context, c *v1alpha1.Cluster, host *remote.Client, role hostsetup.Role) (string, error) {
	return checkFirewall(ctx, m.manager.GetClient(), c, host, role)
}

// joiner makes machines workers.
func (m *machineClusters) joiner() machinecontroller.Joiner {
	return machinecontroller.Distributions{Of: m.distribution, Describe: m.describe}
}

func (m *machineClusters) makeDistributions() error {
	if m.config.ReleaseDir == "" {
		return nil
	}
	offered, err := release.Open(m.config.ReleaseDir)
	if err != nil {
		return err
	}
	m.installer = hostsetup.New(hostsetup.Config{Release: offered, Clock: clock.RealClock{}, Log: m.log})
	servers, err := k3s.New(k3s.Config{Installer: m.installer})
	m.distributions = map[v1alpha1.ClusterType]hostsetup.Distribution{
		v1alpha1.ClusterKubeadm: kubeadm.New(kubeadm.Config{Installer: m.installer, Clock: clock.RealClock{}, Log: m.log}),
		v1alpha1.ClusterK3s:     servers,
	}
	return err
}

// distribution is what is done on the machines of a cluster.
func (m *machineClusters) distribution(c *v1alpha1.Cluster) (hostsetup.Distribution, error) {
	distribution := m.distributions[c.Spec.Type]
	switch {
	case distribution == nil:
		return nil, errNoRelease
	case c.Spec.Type == v1alpha1.ClusterK3s && c.Spec.K3s != nil && c.Spec.K3s.Program != nil:
		program := k3s.Program{Path: c.Spec.K3s.Program.Path, SHA256: c.Spec.K3s.Program.SHA256}
		return k3s.New(k3s.Config{Installer: m.installer, Program: program})
	default:
		return distribution, nil
	}
}

// reach returns a machine to work on, by the driver of its account's provider.
func (m *machineClusters) reach(ctx context.Context, namespace, account string, key machine.Key) (*remote.Client, error) {
	from := &v1alpha1.Account{}
	if err := m.manager.GetClient().Get(ctx, client.ObjectKey{Namespace: namespace, Name: account}, from); err != nil {
		return nil, fmt.Errorf("reach machine %s: read account %s: %w", key.Name, account, err)
	}
	reacher, err := m.drivers.reacher(from.Spec.Provider)
	if err != nil {
		return nil, err
	}
	return reacher.Reach(ctx, key)
}

// describe is what the hosts of a cluster have in common, as a worker needs it.
func (m *machineClusters) describe(_ context.Context, c *v1alpha1.Cluster, version string, join bootstrap.Join) (hostsetup.Cluster, error) {
	network := c.Spec.ClusterNetwork
	return hostsetup.Cluster{
		Name: c.Name, Version: version, Endpoint: strings.TrimPrefix(join.Server, "https://"), CA: join.CA,
		Network: hostsetup.Network{PodCIDR: network.PodCIDR, ServiceCIDR: network.ServiceCIDR, Domain: network.Domain, CNI: network.CNI},
		HA:      c.Spec.ControlPlane.Replicas > 1, Firewall: m.firewall(c),
	}, nil
}
