package teardown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/moby/sys/mountinfo"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

// unmountAll unmounts what lies below the node's directories: volumes, container roots, network namespaces.
func unmountAll(_ context.Context, o Options) error {
	below := func(path string) bool {
		for _, dir := range []string{o.Dir.Path(), o.Dir.Runtime()} {
			// The directory itself may be somebody's mount; only what is in it is ours.
			if strings.HasPrefix(path, dir+"/") {
				return true
			}
		}
		return false
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !below(m.Mountpoint), false })
	if err != nil {
		return err
	}
	var problems []error
	for _, mount := range slices.Backward(mounts) { // what was mounted later lies on top
		if err := syscall.Unmount(mount.Mountpoint, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			problems = append(problems, fmt.Errorf("%s: %w", mount.Mountpoint, err))
		}
	}
	return errors.Join(problems...)
}

// removeServiceRules removes kube-proxy's tables.
func removeServiceRules(context.Context, Options) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := connection.ListTables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table.Name == "kube-proxy" {
			connection.DelTable(table)
		}
	}
	return connection.Flush()
}

// removeCgroups waits for those that are still busy: processes that were killed are in them, and no longer listed, until
// the last of their threads is gone. Those that stay busy with nothing to be seen in them belong to another node: where
// the tree is the whole machine's, one in another container may have a data directory of the same name.
func removeCgroups(ctx context.Context, o Options) error {
	cgroups, err := host.DetectCgroup("")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var failed error
	_ = component.Poll(ctx, func(context.Context) error {
		failed = cgroups.Remove(o.Dir.Cgroup())
		if errors.Is(failed, syscall.EBUSY) {
			return failed
		}
		return nil
	})
	if !errors.Is(failed, syscall.EBUSY) {
		return failed
	}
	if own, err := cgroups.Processes(o.Dir.Cgroup()); err != nil || len(own) > 0 {
		return errors.Join(failed, err)
	}
	o.Log.Warn("cgroups are left alone in which are processes of another container", "cgroup", o.Dir.Cgroup())
	return nil
}

// removeLogLinks removes the kubelet's links to the logs of this node's containers, from the one place that the
// kubelet lets nobody choose.
func removeLogLinks(_ context.Context, o Options) error {
	links, err := filepath.Glob("/var/log/containers/*.log")
	if err != nil {
		return err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, o.Dir.Path()+"/") {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
