package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/k8shost"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/service"
)

func upCommand() *cobra.Command {
	settings := &config.Server{}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a server as a service and wait until its node is Ready",
		Long: "up starts a server that goes on running: as a systemd unit where systemd runs, otherwise as a daemon. Either logs\n" +
			"to DATA-DIR/logs/k8shost.log. Its flags are those of server; they are kept in DATA-DIR/service.yaml.\n" +
			"Where the server runs already, up only waits.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := loadServer(cmd, settings); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return up(ctx, cmd, settings)
		},
	}
	settings.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "`time` after which up gives up waiting")
	return cmd
}

func up(ctx context.Context, cmd *cobra.Command, settings *config.Server) error {
	began := time.Now()
	dir := datadir.New(settings.DataDir)
	var ended <-chan error
	if pid, running := dir.Launcher(); running {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "k8shost runs already (process %d)\n", pid)
	} else {
		if err := cmd.Flags().Set("log-file", service.LogFile(dir)); err != nil {
			return err
		}
		content, err := export(cmd.Flags())
		if err != nil {
			return err
		}
		if ended, err = service.Start(ctx, dir, content); err != nil {
			return err
		}
	}
	if err := awaitServer(ctx, dir, ended, cmd.ErrOrStderr()); err != nil {
		return err
	}
	if !settings.DisableAgent {
		if err := k8shost.AwaitNode(ctx, dir, settings.NodeName); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), `The cluster is up, after %s. To use it:
  k8shost kubectl --data-dir %s get nodes
  export KUBECONFIG=%s
To stop it and remove what it made in the system: k8shost down --data-dir %s
`, time.Since(began).Round(100*time.Millisecond), settings.DataDir, dir.AdminKubeconfig(), settings.DataDir)
	return err
}

// awaitServer shows what the service reports until it is ready.
func awaitServer(ctx context.Context, dir datadir.Dir, ended <-chan error, progress io.Writer) error {
	log, err := os.Open(service.LogFile(dir))
	if err != nil {
		return fmt.Errorf("follow the service's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	for {
		ready := dir.Ready()
		_, _ = io.Copy(progress, log)
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w: see %s", ctx.Err(), service.LogFile(dir))
		case err := <-ended:
			_, _ = io.Copy(progress, log)
			return fmt.Errorf("%w: see %s", err, service.LogFile(dir))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// export writes the flags that were set, by whatever means, as a configuration file.
func export(flags *pflag.FlagSet) ([]byte, error) {
	settings := map[string]any{}
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Name == "config" || flag.Name == "timeout" {
			return
		}
		switch value := flag.Value.(type) {
		case pflag.SliceValue:
			settings[flag.Name] = value.GetSlice()
		case interface{ Reveal() string }:
			settings[flag.Name] = value.Reveal()
		default:
			settings[flag.Name] = value.String()
		}
	})
	return yaml.Marshal(settings)
}
