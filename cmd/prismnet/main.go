// Command prismnet is the pod network's one program: the CNI plugin when the
// container runtime runs it, the node daemon and its tools otherwise.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/command"
)

func main() {
	if os.Getenv("CNI_COMMAND") != "" {
		cni.Main()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "prismnet:", err)
		os.Exit(1)
	}
}
