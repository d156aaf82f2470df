// Command k8shost starts a complete Kubernetes on a host: a server, or an agent that joins one.
package main

import (
	"os"

	"plasmacloud.io/plasmacloud/internal/k8shost/cli"
)

func main() { os.Exit(cli.Execute()) }
