// Command cloud is the command line of PlasmaCloud: it installs the platform, and creates and manages clusters on it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/cli"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/install"
)

func main() {
	cli.Silence()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := cli.Run(ctx, session.FromProcess(), &install.Installer{}, os.Args[1:])
	stop()
	os.Exit(code)
}
