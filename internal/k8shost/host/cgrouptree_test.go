package host_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

func liveCgroup(t *testing.T) host.Cgroup {
	t.Helper()
	c, err := host.DetectCgroup("")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Hierarchies) == 0 {
		t.Fatal("this host has no cgroups")
	}
	return c
}

// cgroupName is unique to the test and cleaned up after it.
func cgroupName(t *testing.T, c host.Cgroup) string {
	t.Helper()
	name := "k8shost-test-" + filepath.Base(filepath.Dir(t.TempDir()))
	t.Cleanup(func() {
		if err := c.Remove(name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// sleeper starts a process that ends with the test.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func enter(t *testing.T, dir string, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureMakesACgroupThatProcessesCanEnter(t *testing.T) {
	c := liveCgroup(t)
	name := cgroupName(t, c)
	nested := name + "/node-a"
	for range 2 {
		if err := c.Ensure(nested); err != nil {
			t.Fatal(err)
		}
	}
	cmd := sleeper(t)
	for _, h := range c.Hierarchies {
		leaf := filepath.Join(h.Mount, nested, "pod")
		if err := os.Mkdir(leaf, 0o755); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(h.Controllers, "cpuset") && !h.Unified {
			// What kubelet's own children inherit is kubelet's affair; the root must have it.
			cpus, err := os.ReadFile(filepath.Join(h.Mount, nested, "cpuset.cpus"))
			if err != nil || strings.TrimSpace(string(cpus)) == "" {
				t.Fatalf("cpuset.cpus %q, %v", cpus, err)
			}
			enter(t, filepath.Join(h.Mount, nested), cmd.Process.Pid)
			continue
		}
		enter(t, leaf, cmd.Process.Pid)
	}
	pids, err := c.Processes(name)
	if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("processes %v, %v; want %d", pids, err, cmd.Process.Pid)
	}

	err = c.Remove(name)
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("remove with a process inside: %v", err)
	}
	if err := cmd.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the process did not survive: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 2 {
		if err := c.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range c.Hierarchies {
		if _, err := os.Stat(filepath.Join(h.Mount, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", h.Mount, err)
		}
	}
	if pids, err := c.Processes(name); err != nil || len(pids) > 0 {
		t.Errorf("processes of nothing: %v, %v", pids, err)
	}
}

func TestCgroupNamesStayBelowTheRoot(t *testing.T) {
	c := liveCgroup(t)
	for _, name := range []string{"", "/", ".", "..", "../x", "a/../b", "a//b", "a/"} {
		if err := c.Ensure(name); err == nil {
			t.Errorf("ensure %q was accepted", name)
		}
		if err := c.Remove(name); err == nil {
			t.Errorf("remove %q was accepted", name)
		}
		if _, err := c.Processes(name); err == nil {
			t.Errorf("processes of %q was accepted", name)
		}
	}
}

// restoreHandedDown takes back, after the test, the controllers that it handed down.
func restoreHandedDown(t *testing.T, path string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(after)) {
			if slices.Contains(strings.Fields(string(before)), name) {
				continue
			}
			if err := os.WriteFile(path, []byte("-"+name), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
}

// In a container with cgroup v2 and no systemd everything runs in the topmost cgroup that
// is seen, which the kernel then does not let hand out controllers.
func TestEnsureOnV2MovesProcessesOutOfTheWay(t *testing.T) {
	live := liveCgroup(t)
	i := slices.IndexFunc(live.Hierarchies, func(h host.Hierarchy) bool { return h.Unified })
	if i < 0 {
		t.Fatal("this host has no cgroup v2 hierarchy, not even beside v1")
	}
	unified := live.Hierarchies[i]
	restoreHandedDown(t, filepath.Join(unified.Mount, "cgroup.subtree_control"))
	outer := host.Cgroup{Mode: host.CgroupV2, Hierarchies: []host.Hierarchy{unified}}
	name := cgroupName(t, outer)
	if err := outer.Ensure(name); err != nil {
		t.Fatal(err)
	}
	// A container's view: its own cgroup is the top. It holds a process, and hands nothing down.
	top := filepath.Join(unified.Mount, name, "container")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t)
	enter(t, top, cmd.Process.Pid)
	inner := host.Cgroup{Mode: host.CgroupV2, Hierarchies: []host.Hierarchy{{Mount: top, Controllers: unified.Controllers, Unified: true}}}
	if err := inner.Ensure("k8shost"); err != nil {
		t.Fatal(err)
	}
	available, err := os.ReadFile(filepath.Join(top, "k8shost", "cgroup.controllers"))
	if err != nil || strings.Join(strings.Fields(string(available)), " ") != strings.Join(unified.Controllers, " ") {
		t.Errorf("controllers handed down: %q, %v; want %v", available, err, unified.Controllers)
	}
	// Where v1 has all controllers there is none to hand down, and so no reason to move anything.
	home := filepath.Join(top, "cgroup.procs")
	if len(unified.Controllers) > 0 {
		home = filepath.Join(top, "init", "cgroup.procs")
	}
	moved, err := os.ReadFile(home)
	if err != nil || strings.TrimSpace(string(moved)) != strconv.Itoa(cmd.Process.Pid) {
		t.Errorf("in %s: %q, %v; want the process", home, moved, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
