// Package guest is what a machine that is a pod does in itself before its init starts: it lays the files that its owner
// gave it, shows its programs the size it has instead of the host's, and makes room for containers of its own. The
// driver (package pod) starts a machine in the surroundings that are described here; the kernel knows neither.
package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The surroundings of a machine.
const (
	// FilesDir holds the files that are to be laid, each at its own path below it.
	FilesDir = "/etc/plasmacloud/files"
	// DiskDir is the machine's disk. What is kept there survives when the machine is started again.
	DiskDir = "/var/lib/machine"

	// HostKeyFile is the private key by which sshd proves that this is the machine, and AuthorizedKeysFile the keys that
	// it lets in. Keys that have changed since the machine was made are in KeptKeysFile, which overrides that at the next
	// start.
	HostKeyFile        = DiskDir + "/ssh_host_ed25519_key"
	AuthorizedKeysFile = "/root/.ssh/authorized_keys"
	KeptKeysFile       = DiskDir + "/authorized_keys"

	// EnvCPU, EnvMemory and EnvDisk tell the machine's size: thousandths of a CPU, and bytes.
	EnvCPU    = "PLASMACLOUD_MACHINE_CPU"
	EnvMemory = "PLASMACLOUD_MACHINE_MEMORY"
	EnvDisk   = "PLASMACLOUD_MACHINE_DISK"
	// EnvID is what systemd takes the machine's id from.
	EnvID = "container_uuid"
)

// stop is SIGRTMIN+3, by which an init is told to shut the machine down.
const stop = unix.Signal(37)

// Init prepares the machine that this container is and turns this process, its first, into the given program. The
// environment tells the machine's size. It returns where it fails, or is told to stop before it is done.
func Init(command []string, getenv func(string) string) error {
	// A namespace is entered by a thread; the new program inherits those of the thread that starts it.
	runtime.LockOSThread()
	// The kernel drops signals that the first process is not ready for. One that comes while the new program is not yet
	// has to wait for it: without it the machine would have to be killed in the end.
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, stop)
	if err := prepare(getenv); err != nil {
		return err
	}
	var waiting unix.Sigset_t
	waiting.Val[0] = 1 << (stop - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &waiting, nil); err != nil {
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	select {
	case <-stopped:
		return nil
	default:
		return fmt.Errorf("start %s: %w", command[0], unix.Exec(command[0], command, os.Environ()))
	}
}

func prepare(getenv func(string) string) error {
	size, err := readSize(getenv)
	if err != nil {
		return fmt.Errorf("prepare machine: %w", err)
	}
	disk, err := readDisk(getenv)
	if err != nil {
		return fmt.Errorf("prepare machine: %w", err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"take the cgroups that are the machine's", ownCgroups},
		{"share mounts with containers", shareMounts},
		{"lay files", func() error { return layFiles(FilesDir, "/") }},
		{"lay keys", func() error { return layKeys(KeptKeysFile, AuthorizedKeysFile) }},
		{"attach the disk", func() error { return attachDisk(disk) }},
		{"show the machine's size", size.show},
		{"show the machine's id", func() error { return showID(getenv(EnvID)) }},
		{"forward packets", forward},
		{"allow many watches", allowWatches},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("prepare machine: %s: %w", step.what, err)
		}
	}
	return nil
}

// shareMounts lets mounts that one container makes reach the machine and its other containers.
func shareMounts() error {
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// forward makes the machine route between its containers and the rest. The setting is the network namespace's own;
// systemd-sysctl, which would write the host's too, is masked.
func forward() error {
	for _, setting := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		err := os.WriteFile(filepath.Join("/proc/sys", setting), []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// allowWatches raises limits that all machines on a host share: they count per user, root is the same user in all of
// them, and the usual values serve one machine.
func allowWatches() error {
	for setting, least := range map[string]int{"max_user_instances": 8192, "max_user_watches": 524288} {
		file := filepath.Join("/proc/sys/fs/inotify", setting)
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		now, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil || now >= least {
			continue
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(least)), 0); err != nil {
			return err
		}
	}
	return nil
}

// layFiles copies the files below source to where they belong below target, for root's eyes alone. Names that begin
// with two dots are how a volume of a Secret is made, and no files of the machine's.
func layFiles(source, target string) error {
	entries, err := os.ReadDir(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		from, to := filepath.Join(source, entry.Name()), filepath.Join(target, entry.Name())
		info, err := os.Stat(from) // a volume of a Secret has links where the files are
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = layFiles(from, to)
		} else {
			err = layFile(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layKeys lays the keys that were let in last, where they are others than those that the machine was made with.
func layKeys(kept, target string) error {
	err := layFile(kept, target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func layFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
