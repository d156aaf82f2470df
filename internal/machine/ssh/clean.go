package ssh

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

var (
	//go:embed script/clean.sh
	cleanScript string
	//go:embed script/remnants.sh
	remnantsScript string
	//go:embed script/unclaim.sh
	unclaimScript string
)

const stepClean = "clean host"

// restore makes a machine's host what it was before. A host that was never touched, or that is another's by now, is left
// alone.
func (d *Driver) restore(ctx context.Context, l *lease) error {
	if !l.Claimed {
		return nil
	}
	host, err := d.hostOf(ctx, l)
	if err != nil {
		return err
	}
	client, err := d.client(ctx, host)
	if err != nil {
		return err
	}
	holder, err := client.Download(ctx, stepClean, claimFile, 1<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it was not taken in the end, or has been given back
	case err != nil:
		return err
	case strings.TrimSpace(string(holder)) != l.ID:
		return nil
	}
	ours := client.Guarded(claimFile, l.ID)
	if err := d.clean(ctx, ours); err != nil {
		return err
	}
	_, err = ours.Run(ctx, remote.Command{Step: stepClean, Args: []string{"sh", "-c", unclaimScript, "sh", claimFile, l.ID}})
	if errors.Is(err, remote.ErrGuard) {
		return nil
	}
	return err
}

// clean removes everything, and looks whether it is gone.
func (d *Driver) clean(ctx context.Context, host *remote.Client) error {
	if d.Cleaner != nil {
		if err := d.Cleaner.Clean(ctx, host); err != nil {
			return err
		}
	}
	script := func(text string) (remote.Result, error) {
		return host.RunIdempotent(ctx, remote.Command{Step: stepClean, Args: []string{"sh", "-c", text, "sh", filesFile}})
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
	return nil
}
