package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupDir = "/sys/fs/cgroup"

// ownCgroups lets the machine see its own cgroup as the root. With the first version of cgroups a runtime shows a
// container nothing else; with the second it shows a privileged one the host's whole tree, where an init and a kubelet
// would write beside those of the host.
func ownCgroups() error {
	var top unix.Statfs_t
	if err := unix.Statfs(cgroupDir, &top); err != nil {
		return err
	}
	if top.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(membership)) == "0::/" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("enter a cgroup namespace: %w", err)
	}
	if err := unix.Unmount(cgroupDir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", filepath.Clean(cgroupDir), err)
	}
	return unix.Mount("cgroup", cgroupDir, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "")
}
