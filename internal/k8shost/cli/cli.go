// Package cli is the command line of k8shost: a file a verb. Commands read flags, call the launcher's packages and
// print; data goes to standard output, progress and logs to standard error.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"gopkg.in/natefinch/lumberjack.v2"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
)

// Execute runs the command line and returns the exit code.
func Execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "k8shost:", err)
		if special, ok := errors.AsType[exitError](err); ok {
			return special.code
		}
		return 1
	}
	return 0
}

// New returns the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "k8shost",
		Short: "Kubernetes, built from source and started by one command",
		Long: "k8shost starts a complete upstream Kubernetes: a server with its control plane, or an agent that joins one.\n" +
			"It runs in the foreground (server, agent) or as a service (up, down).",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return config.FlagError(cmd.Flags(), err) })
	root.AddCommand(serverCommand(), agentCommand(), upCommand(), downCommand(), snapshotCommand(), memberCommand(), tokenCommand(), encryptionCommand(),
		kubectlCommand(), checkCommand(), versionCommand(), machineCommand())
	return root
}

// output is the -o flag.
type output struct{ format string }

func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "`format`: table, json or yaml")
}

// print writes value in the format asked for; table writes it for people.
func (o *output) print(w io.Writer, value any, table func(io.Writer) error) error {
	switch o.format {
	case "table":
		return table(w)
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	default:
		return fmt.Errorf("--output: %q is no format: use table, json or yaml", o.format)
	}
}

// newLogger writes to standard error, or to the file asked for, with rotation.
func newLogger(settings *config.Node) *slog.Logger {
	var target io.Writer = os.Stderr
	if settings.LogFile != "" {
		target = &lumberjack.Logger{Filename: settings.LogFile, MaxSize: 50, MaxBackups: 5, MaxAge: 30, Compress: true}
	}
	return slog.New(slog.NewTextHandler(target, &slog.HandlerOptions{Level: settings.Level()}))
}

// dataDirFlag is the --data-dir of commands that look at a node that exists; the environment can set it too.
func dataDirFlag(cmd *cobra.Command, target *string) {
	value := os.Getenv("K8SHOST_DATA_DIR")
	if value == "" {
		value = config.DefaultDataDir
	}
	cmd.Flags().StringVar(target, "data-dir", value, "`directory` of the node (also K8SHOST_DATA_DIR)")
}
