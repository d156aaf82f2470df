// Command distro builds the Kubernetes distribution from source: binaries, images, manifest and SBOM.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/distro/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "distro:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}
