package deployer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// Command is the daemon's subcommand that is a deployer.
const Command = "deploy"

// Files in the folder that --access names.
const (
	TokenFile = "token"
	CAFile    = "ca.crt"
)

// Args are the arguments of a deployer. None of them is secret.
func Args(server, access, stack string, turn Turn, releaseDir, work string) []string {
	return []string{
		Command, "--server=" + server, "--access=" + access, "--stack=" + stack, "--operation=" + turn.ID, fmt.Sprintf("--attempt=%d", turn.Attempt),
		"--release-dir=" + releaseDir, "--work-dir=" + work,
	}
}

// RunCommand does what the arguments say.
func RunCommand(ctx context.Context, args []string, clouds map[string]Cloud, log *slog.Logger) error {
	config := Config{Clouds: clouds, Log: log}
	var access string
	flags := pflag.NewFlagSet("cloudd "+Command, pflag.ContinueOnError)
	flags.StringVar(&config.Server, "server", "", "`address` of the platform's service for deployers")
	flags.StringVar(&access, "access", "", "`directory` with the token for it, and its certificate authority")
	flags.StringVar(&config.Stack, "stack", "", "`name` of the stack")
	flags.StringVar(&config.Turn.ID, "operation", "", "`ID` of the operation")
	flags.IntVar(&config.Turn.Attempt, "attempt", 1, "`number` of the attempt")
	flags.StringVar(&config.Release, "release-dir", "", "`directory` of the release")
	flags.StringVar(&config.Work, "work-dir", "", "`directory` to work in; what is in it is secret")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if config.Server == "" || access == "" || config.Stack == "" || config.Turn.ID == "" || config.Release == "" || config.Work == "" {
		return errors.New("deploy: --server, --access, --stack, --operation, --release-dir and --work-dir are needed")
	}
	token, err := os.ReadFile(filepath.Join(access, TokenFile))
	if err != nil {
		return fmt.Errorf("deploy: %w", err)
	}
	config.Token = strings.TrimSpace(string(token))
	if config.CA, err = os.ReadFile(filepath.Join(access, CAFile)); err != nil {
		return fmt.Errorf("deploy: %w", err)
	}
	return Run(ctx, config)
}
