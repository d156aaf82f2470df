package machines

import (
	"context"
	"slices"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// checkSecurityGroup is the check of what a host lets in.
const checkSecurityGroup = "security-group"

// health asks a host how it is: what its distribution knows of, and what it lets in.
func (b *build) health(ctx context.Context, distribution hostsetup.Distribution, host hostsetup.Host, role hostsetup.Role) ([]hostsetup.Finding, error) {
	findings, err := distribution.Health(ctx, host, role)
	if err != nil || b.own.CheckFirewall == nil {
		return findings, err
	}
	problem, err := b.own.CheckFirewall(ctx, b.Cluster, host.Client, role)
	if err == nil && problem != "" {
		findings = append(findings, hostsetup.Finding{
			Check: checkSecurityGroup, Message: "the security group: " + problem, Repairable: true,
			Remedy: "it is installed anew; change its rules on the network, not on machines",
		})
	}
	return findings, err
}

// mend repairs what health has found.
func mend(ctx context.Context, distribution hostsetup.Distribution, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, findings []hostsetup.Finding) error {
	others := slices.DeleteFunc(slices.Clone(findings), func(f hostsetup.Finding) bool { return f.Check == checkSecurityGroup })
	if len(others) < len(findings) {
		if err := cluster.Firewall(ctx, host.Client, role); err != nil {
			return err
		}
	}
	return distribution.Repair(ctx, host, cluster, role, others)
}
