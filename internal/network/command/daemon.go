package command

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/network/node"
)

func newDaemon() *cobra.Command {
	var config node.Config
	var kubeconfig string
	var unpoliced bool
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Keep this node's pod network until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Validate(); err != nil {
				return err
			}
			nodes, policies, err := newSources(kubeconfig)
			if err != nil {
				return err
			}
			if unpoliced {
				policies = nil
			}
			daemon, err := node.New(config, nodes, policies, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			return daemon.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an identity that may list and watch nodes, and pods, namespaces and network policies")
	flags.StringVar(&config.NodeName, "node-name", "", "name of this node in the cluster")
	flags.TextVar(&config.ClusterCIDR, "cluster-cidr", netip.Prefix{}, "CIDR of all pods in the cluster")
	flags.StringVar(&config.StateDir, "state-dir", "", "directory of this node's leases")
	flags.StringVar(&config.CNIConfDir, "cni-conf-dir", "", "directory the container runtime reads network configurations from")
	flags.StringVar(&config.CNIBinDir, "cni-bin-dir", "", "directory to install the plugin in (default: do not install it)")
	flags.IntVar(&config.MTU, "mtu", 0, "MTU of pods' interfaces (default: the underlay's)")
	flags.IntVar(&config.Tunnel.VNI, "vxlan-vni", node.DefaultVNI, "VXLAN network identifier")
	flags.IntVar(&config.Tunnel.Port, "vxlan-port", node.DefaultPort, "VXLAN UDP port")
	flags.BoolVar(&config.Tunnel.Always, "vxlan-always", false, "use VXLAN on a shared segment too")
	flags.BoolVar(&unpoliced, "disable-network-policy", false, "enforce no network policies, and remove those that were enforced")
	flags.DurationVar(&config.Resync, "resync", node.DefaultResync, "how often to check everything")
	for _, name := range []string{"kubeconfig", "node-name", "cluster-cidr", "state-dir", "cni-conf-dir"} {
		mustBeGiven(cmd, name)
	}
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if config.CNIBinDir == "" {
			return nil
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		config.PluginBinary = self
		return nil
	}
	return cmd
}

// mustBeGiven marks a flag as required; that only fails for a flag that the
// caller did not define.
func mustBeGiven(cmd *cobra.Command, name string) {
	if err := cmd.MarkFlagRequired(name); err != nil {
		panic(err)
	}
}
