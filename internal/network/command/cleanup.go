package command

import (
	"net/netip"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/network/node"
)

func newCleanup() *cobra.Command {
	var config node.Config
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything the pod network made on this node",
		Long: "Remove everything the pod network made on this node: interfaces, routes, rules,\n" +
			"addresses and the network configuration. Pods that still run lose their network.\n" +
			"Stop the daemon first.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return node.Cleanup(config) },
	}
	flags := cmd.Flags()
	flags.StringVar(&config.StateDir, "state-dir", "", "directory of this node's leases")
	flags.TextVar(&config.ClusterCIDR, "cluster-cidr", netip.Prefix{}, "CIDR of all pods (default: as the daemon recorded)")
	flags.StringVar(&config.CNIConfDir, "cni-conf-dir", "", "directory of the network configuration (default: as the daemon recorded)")
	mustBeGiven(cmd, "state-dir")
	return cmd
}
