package cloudd

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/network/node"
	"plasmacloud.io/plasmacloud/internal/securitygroup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// firewall returns what installs a cluster's security group, as it is on its network now, on a machine.
func firewall(api client.Reader, c *v1alpha1.Cluster) func(context.Context, *remote.Client, hostsetup.Role) error {
	return func(ctx context.Context, host *remote.Client, role hostsetup.Role) error {
		policy, err := securityPolicy(ctx, api, c, role)
		if err != nil {
			return err
		}
		return securitygroup.Install(ctx, host, policy)
	}
}

// checkFirewall tells what is wrong with a cluster's security group on a machine.
func checkFirewall(ctx context.Context, api client.Reader, c *v1alpha1.Cluster, host *remote.Client, role hostsetup.Role) (string, error) {
	policy, err := securityPolicy(ctx, api, c, role)
	if err != nil {
		return "", err
	}
	return securitygroup.Check(ctx, host, &policy)
}

// securityPolicy is what a machine of a cluster lets in.
func securityPolicy(ctx context.Context, api client.Reader, c *v1alpha1.Cluster, role hostsetup.Role) (securitygroup.Policy, error) {
	network := &v1alpha1.Network{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.Network}, network); err != nil {
		return securitygroup.Policy{}, fmt.Errorf("read the security group of cluster %s: %w", c.Name, err)
	}
	policy := securitygroup.Policy{Group: network.Spec.SecurityGroupOf(c.Name), PodCIDR: c.Spec.ClusterNetwork.PodCIDR}
	if c.Spec.ClusterNetwork.CNI != v1alpha1.CNINone {
		policy.Internal = append(policy.Internal, securitygroup.Tunnel(node.DefaultPort))
	}
	if role != hostsetup.ControlPlane {
		return policy, nil
	}
	var machines v1alpha1.MachineList
	if err := api.List(ctx, &machines, client.InNamespace(c.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: c.Name}); err != nil {
		return securitygroup.Policy{}, fmt.Errorf("list the control plane of cluster %s: %w", c.Name, err)
	}
	var members []string
	for _, machine := range machines.Items {
		if machine.Spec.Role == v1alpha1.MachineControlPlane && machine.Status.Address != "" {
			members = append(members, machine.Status.Address)
		}
	}
	policy.Internal = append(policy.Internal, securitygroup.Etcd(members...)...)
	return policy, nil
}
