package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/release"
)

// Command is the daemon's subcommand that is a remote deployer.
const Command = "deployer"

// RunCommand does what the arguments say. None of them is secret.
func RunCommand(ctx context.Context, args []string, clouds map[string]deployer.Cloud, log *slog.Logger) error {
	options := Options{Clouds: clouds, Log: log}
	var account, ca string
	flags := pflag.NewFlagSet("cloudd "+Command, pflag.ContinueOnError)
	flags.StringVar(&options.Server, "server", "", "`address` of the platform's service for deployers, https://…")
	flags.StringVar(&account, "account", "", "`project/name` of the account that tasks are done for")
	flags.StringVar(&options.TokenFile, "token-file", "", "`file` with the account's token for deployers; it may be replaced at any time")
	flags.StringVar(&ca, "ca-file", "", "`file` with the platform's certificate authority")
	flags.StringVar(&options.Name, "name", "", "`name` by which people know this deployer; the host's where it is empty")
	flags.IntVar(&options.Limit, "limit", 4, "`number` of tasks at once")
	flags.DurationVar(&options.Poll, "poll", 5*time.Second, "`time` between two questions for tasks")
	flags.StringVar(&options.Release, "release-dir", "", "`directory` of the release; found as other programs find it where it is empty")
	flags.StringVar(&options.Work, "work-dir", "", "`directory` to work in; what is in it is secret")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if options.Server == "" || account == "" || options.TokenFile == "" || ca == "" || options.Work == "" {
		return errors.New("deployer: --server, --account, --token-file, --ca-file and --work-dir are needed")
	}
	var found bool
	if options.Project, options.Account, found = strings.Cut(account, "/"); !found || options.Project == "" || options.Account == "" {
		return fmt.Errorf("deployer: --account: %q is not of the form project/name", account)
	}
	if options.Limit < 1 || options.Poll <= 0 {
		return errors.New("deployer: --limit and --poll are greater than zero")
	}
	var err error
	if options.CA, err = os.ReadFile(ca); err != nil {
		return fmt.Errorf("deployer: %w", err)
	}
	if options.Release, err = release.Locate(options.Release); err != nil {
		return fmt.Errorf("deployer: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("deployer: %w", err)
	}
	options.Name = cmp.Or(options.Name, host)
	client, err := Connect(options)
	if err != nil {
		return err
	}
	return client.Run(ctx)
}
