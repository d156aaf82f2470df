package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/service"
	"plasmacloud.io/plasmacloud/internal/k8shost/teardown"
	network "plasmacloud.io/plasmacloud/internal/network/node"
)

func downCommand() *cobra.Command {
	var dataDir string
	var purge bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the node, its pods and all, and remove what it made in the system",
		Long: "down stops the server or agent in --data-dir and ends every pod on it. It removes the mounts, network namespaces,\n" +
			"cgroups, interfaces and firewall rules that the node made. The data stays, unless --purge is given.\n" +
			"It may be repeated, and works after a crash.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := filepath.Abs(dataDir)
			if err != nil {
				return err
			}
			dir := datadir.New(path)
			exists, err := dir.Exists()
			if err != nil {
				return err
			}
			if !exists {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "nothing to do: no node has used %s\n", path)
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := service.Remove(ctx, dir); err != nil {
				return err
			}
			return teardown.Run(ctx, teardown.Options{
				Dir: dir, Log: newLogger(&config.Node{}), Purge: purge,
				Network: func() error {
					return network.Cleanup(network.Config{StateDir: dir.Network(), CNIConfDir: dir.CNIConf()})
				},
			})
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the data directory too: the cluster is gone for good")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Minute, "`time` after which down gives up")
	return cmd
}
