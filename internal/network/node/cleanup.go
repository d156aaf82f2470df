package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// cleanupTimeout bounds Cleanup, which waits for the plugin if that is at work.
const cleanupTimeout = 30 * time.Second

// Cleanup removes everything that the daemon and the plugin ever made on the
// node: interfaces, routes, rules, the gateway's address, leases and the network
// configuration. Only StateDir (and NetNS, where it was set) must be given; the
// rest is in the node's record. It can be repeated, and works wherever a crash
// left things. The daemon must not be running.
func Cleanup(config Config) error {
	if !filepath.IsAbs(config.StateDir) {
		return fmt.Errorf("clean up pod network: state directory %q is not an absolute path", config.StateDir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()

	known := loadRecord(config.StateDir)
	clusters := []netip.Prefix{config.ClusterCIDR, known.ClusterCIDR}
	confDirs := []string{config.CNIConfDir, known.CNIConfDir}

	// Without the configuration no new pod comes in between.
	var problems []error
	for _, dir := range confDirs {
		if dir != "" {
			problems = append(problems, removeFile(filepath.Join(dir, cni.ConflistName)))
		}
	}
	problems = append(problems, linux.InNamespace(config.NetNS, func() error {
		return removeDataplane(ctx, config.StateDir, clusters)
	}))
	if err := errors.Join(problems...); err != nil {
		// The record stays: it is what the next attempt goes by.
		return fmt.Errorf("clean up pod network: %w", err)
	}
	if err := removeFile(filepath.Join(config.StateDir, recordName)); err != nil {
		return fmt.Errorf("clean up pod network: %w", err)
	}
	return nil
}

func removeDataplane(ctx context.Context, stateDir string, clusters []netip.Prefix) error {
	dataplane := linux.New(stateDir)
	if _, err := os.Stat(stateDir); errors.Is(err, os.ErrNotExist) {
		return dataplane.Remove(ctx, clusters...)
	}
	session, err := ipam.NewStore(stateDir).Lock(ctx)
	if err != nil {
		return err
	}
	err = dataplane.Remove(ctx, clusters...)
	if err == nil {
		err = session.Destroy()
	}
	return errors.Join(err, session.Close())
}
