package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// treeOf says to this test, started as a process of its own, where the tree is.
const treeOf = "GUEST_TEST_CGROUPS"

// A privileged container on a host with the second version of cgroups sees the host's tree. A process of its own is in a
// cgroup of such a tree, in mounts of its own, and has to see that cgroup as the root afterwards.
func TestAMachineSeesItsOwnCgroupAsTheRoot(t *testing.T) {
	if tree := os.Getenv(treeOf); tree != "" {
		runtime.LockOSThread() // its namespaces are the thread's
		if err := seeOwnCgroup(tree); err != nil {
			t.Fatal(err)
		}
		return
	}
	// Options of this mount are those of the whole tree; this one is usual.
	tree := t.TempDir()
	if err := unix.Mount("cgroup", tree, "cgroup2", 0, "nsdelegate"); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(tree, "guest-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Rmdir(own), unix.Unmount(tree, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	cgroup, err := os.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), treeOf+"="+tree)
	child.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if output, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
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
