package teardown

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

// endPods kills every process of every pod. A pod's processes are children of a shim, which is known by the socket
// of the containerd that it belongs to; those that left their shim are still in the node's cgroup.
func endPods(ctx context.Context, o Options) error {
	cgroups, err := host.DetectCgroup("")
	if err != nil {
		return err
	}
	return component.Poll(ctx, func(context.Context) error {
		victims, err := podProcesses(o)
		if err != nil {
			return err
		}
		inCgroup, err := cgroups.Processes(o.Dir.Cgroup())
		if err != nil {
			return err
		}
		victims = append(victims, inCgroup...)
		if len(victims) == 0 {
			return nil
		}
		slices.Sort(victims)
		for _, pid := range slices.Compact(victims) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d of a pod: %w", pid, err)
			}
		}
		return fmt.Errorf("%d processes of pods have not ended", len(victims))
	})
}

// podProcesses returns the shims of this node's containerd and all their descendants.
func podProcesses(o Options) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	var pending []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		parent, zombie := parentOf(pid)
		if zombie {
			continue
		}
		children[parent] = append(children[parent], pid)
		if isShim(pid, o.Dir.ContainerdSocket()) {
			pending = append(pending, pid)
		}
	}
	var found []int
	for len(pending) > 0 {
		pid := pending[0]
		pending = append(pending[1:], children[pid]...)
		found = append(found, pid)
	}
	return found, nil
}

func isShim(pid int, socket string) bool {
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false
	}
	args := bytes.Split(cmdline, []byte{0})
	if !strings.HasPrefix(filepath.Base(string(args[0])), "containerd-shim") {
		return false
	}
	return slices.ContainsFunc(args, func(arg []byte) bool { return string(arg) == socket })
}

// parentOf returns a process's parent, and whether the process has ended and only waits to be collected.
func parentOf(pid int) (parent int, zombie bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, true
	}
	var state string
	end := strings.LastIndexByte(string(stat), ')')
	if _, err := fmt.Sscan(string(stat[end+1:]), &state, &parent); err != nil {
		return 0, true
	}
	return parent, state == "Z"
}
