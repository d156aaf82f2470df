package cli

import (
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

func serverCommand() *cobra.Command {
	settings := &config.Server{}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a server: a control plane, and a node",
		Long: "server runs in the foreground until it gets SIGTERM or SIGINT. Its components stop with it; pods go on running.\n" +
			"Without --server it starts a cluster of its own, or goes on with the one in --data-dir.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := loadServer(cmd, settings); err != nil {
				return err
			}
			return k8shost.RunServer(cmd.Context(), settings, newLogger(&settings.Node), notifySystemd)
		},
	}
	settings.AddFlags(cmd.Flags())
	return cmd
}

func agentCommand() *cobra.Command {
	settings := &config.Agent{}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run an agent: a node that joins a server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Load(cmd.Flags(), os.Environ()); err != nil {
				return err
			}
			identity, err := host.DetectIdentity()
			if err != nil {
				return err
			}
			if err := settings.Complete(identity); err != nil {
				return err
			}
			if err := settings.Validate(); err != nil {
				return err
			}
			return k8shost.RunAgent(cmd.Context(), settings, newLogger(&settings.Node), notifySystemd)
		},
	}
	settings.AddFlags(cmd.Flags())
	return cmd
}

func loadServer(cmd *cobra.Command, settings *config.Server) error {
	if err := config.Load(cmd.Flags(), os.Environ()); err != nil {
		return err
	}
	identity, err := host.DetectIdentity()
	if err != nil {
		return err
	}
	if err := settings.Complete(identity); err != nil {
		return err
	}
	return settings.Validate()
}

// notifySystemd tells systemd, where it listens, that the service is up.
func notifySystemd() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
