package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// A check for leftovers that finds nothing proves nothing unless it finds what is there.
func TestLeftoversAreFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	n := &Node{Name: "node", Data: datadir.New(dir)}
	n.namespace = "e2e-leftovers-" + n.Data.ID()
	if err := makeNamespace(n.namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", n.namespace).Run() })
	if left := n.leftovers(); len(left) > 0 {
		t.Fatalf("found before there is anything: %v", left)
	}
	leave(t, n)
	left := strings.Join(n.leftovers(), "\n")
	for _, want := range []string{
		"mount: " + dir + "/volume", "directory: " + dir, "directory: " + n.Data.Runtime(),
		"process: ", "process in its network namespace: ", "cgroup: ", "interface: stray", "nftables: table inet stray",
	} {
		if !strings.Contains(left, want) {
			t.Errorf("not found: %s; found:\n%s", want, left)
		}
	}
}

// leave makes one of everything that a node could leave.
func leave(t *testing.T, n *Node) {
	t.Helper()
	volume := n.Data.Path("volume")
	for _, made := range []string{volume, n.Data.Runtime(), cgroupOf(t, n)} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(made) })
	}
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(volume, syscall.MNT_DETACH) })
	inside := []string{"--net=" + namespacePath(n.namespace), "--"}
	for _, command := range [][]string{{"ip", "link", "add", "stray", "type", "bridge"}, {"nft", "add", "table", "inet", "stray"}} {
		if output, err := exec.Command("nsenter", append(inside, command...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, output)
		}
	}
	process := exec.Command("nsenter", append(inside, "tail", "-f", "/dev/null", n.Data.Path("log"))...)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	Eventually(t, stopPatience, "the process is there", func() error {
		_, err := os.Stat(namespacePath(n.namespace))
		if inside, listErr := n.processesInside(); listErr == nil && len(inside) == 0 {
			err = os.ErrNotExist
		}
		return err
	})
}

// cgroupOf names a cgroup of the node in whatever hierarchy the host has.
func cgroupOf(t *testing.T, n *Node) string {
	t.Helper()
	for _, hierarchy := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(hierarchy, "cgroup.procs")); err == nil {
			return filepath.Join(hierarchy, n.Data.Cgroup())
		}
	}
	t.Fatal("the host has no cgroups")
	return ""
}
