package k3s

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

const stepClean = "clean host"

//go:embed script/clean.sh
var cleanScript string

//go:embed script/remnants.sh
var remnantsScript string

// Clean implements hostsetup.Distribution. It works from what it finds: a host may have been left in the middle of
// anything, with k8shost or with an upstream k3s.
func (d *Distribution) Clean(ctx context.Context, host *remote.Client) error {
	script := func(text string) (remote.Result, error) {
		return host.RunIdempotent(ctx, remote.Command{Step: stepClean, Args: []string{"sh", "-c", text, "sh", dataDir}, Timeout: 5 * time.Minute})
	}
	if _, err := script(cleanScript); err != nil {
		return err
	}
	left, err := script(remnantsScript)
	if err != nil {
		return err
	}
	if things := strings.TrimSpace(left.Stdout); things != "" {
		return fmt.Errorf("host %s: %s: left are %s; remove them by hand if this persists", host.Host(), stepClean, strings.ReplaceAll(things, "\n", ", "))
	}
	return hostsetup.Restore(ctx, host, stepClean)
}
