// Command cloudd is the platform's daemon: controllers, task workers, identities and admission. As `cloudd api-balancer` it
// is the load balancer before the API servers of one cluster, as `cloudd deploy` it does one operation in a cloud, and as
// `cloudd deployer` those of an account, from wherever it runs.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"plasmacloud.io/plasmacloud/internal/cloudd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cloudd:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 && cloudd.Subcommand(os.Args[1]) != nil {
		return cloudd.Subcommand(os.Args[1])(ctrl.SetupSignalHandler(), os.Args[2:], slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	}
	config := &cloudd.Config{RedisURL: os.Getenv("CLOUDD_REDIS_URL")}
	flags := pflag.NewFlagSet("cloudd", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(config.LogLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	api, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the management API: %w", err)
	}
	identity, err := os.Hostname() // a pod's name, which its next container has too
	if err != nil {
		return err
	}
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return cloudd.Run(ctrl.SetupSignalHandler(), config, api, version, identity, log)
}
