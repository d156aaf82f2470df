package kubeadm

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

var (
	//go:embed script/clean.sh
	cleanScript string
	//go:embed script/remnants.sh
	remnantsScript string
)

// cleanPatience is for ending many pods.
const cleanPatience = 5 * time.Minute

// Clean implements hostsetup.Distribution. It works from what it finds: a host may have been left in the middle of
// anything. The security group is not touched: who installed it removes it.
func (d *Distribution) Clean(ctx context.Context, host *remote.Client) error {
	script := func(text string) (string, error) {
		result, err := host.RunIdempotent(ctx, remote.Command{
			Step: stepClean, Args: []string{"sh", "-c", text, "sh", hostsetup.MarkFile}, Timeout: cleanPatience,
		})
		return result.Stdout, err
	}
	if _, err := script(cleanScript); err != nil {
		return err
	}
	left, err := script(remnantsScript)
	if err != nil {
		return err
	}
	if things := strings.TrimSpace(left); things != "" {
		return fmt.Errorf("host %s: %s: left are %s; remove them by hand if this persists", host.Host(), stepClean, strings.ReplaceAll(things, "\n", ", "))
	}
	return hostsetup.Restore(ctx, host, stepClean)
}
