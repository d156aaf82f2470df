package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A privileged container on a host with the second version of cgroups sees the host's tree. The test is in a cgroup of
// such a tree, in mounts of its own, and has to see that cgroup as the root afterwards.
func TestAMachineSeesItsOwnCgroupAsTheRoot(t *testing.T) {
	// Options of this mount are those of the whole tree; this one is usual.
	tree, name := t.TempDir(), "guest-test-"+strconv.Itoa(os.Getpid())
	if err := unix.Mount("cgroup", tree, "cgroup2", 0, "nsdelegate"); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(tree, name)
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		move := os.WriteFile(filepath.Join(tree, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
		if err := errors.Join(move, unix.Rmdir(own), unix.Unmount(tree, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and its namespaces with it
		done <- seeOwnCgroup(tree)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func seeOwnCgroup(tree string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(tree, cgroupDir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := ownCgroups(); err != nil {
		return err
	}
	members, err := os.ReadFile(filepath.Join(cgroupDir, "cgroup.procs"))
	if err != nil {
		return err
	}
	if !strings.Contains("\n"+string(members), fmt.Sprintf("\n%d\n", os.Getpid())) {
		return fmt.Errorf("the root has processes %q, not %d", members, os.Getpid())
	}
	// The root of the whole tree has no such file.
	if _, err := os.Stat(filepath.Join(cgroupDir, "cgroup.type")); err != nil {
		return fmt.Errorf("it is the host's root: %w", err)
	}
	return nil
}
