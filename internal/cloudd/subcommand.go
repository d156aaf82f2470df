package cloudd

import (
	"context"
	"log/slog"

	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/deployer/remote"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
)

// Subcommand is what the program is in pods that are not the daemon's own; nil where there is none of that name.
func Subcommand(name string) func(ctx context.Context, args []string, log *slog.Logger) error {
	switch name {
	case balancer.Command:
		return balancer.RunCommand
	case deployer.Command:
		return func(ctx context.Context, args []string, log *slog.Logger) error {
			return deployer.RunCommand(ctx, args, cloud.Clouds(), log)
		}
	case remote.Command:
		return func(ctx context.Context, args []string, log *slog.Logger) error {
			return remote.RunCommand(ctx, args, cloud.Clouds(), log)
		}
	}
	return nil
}
