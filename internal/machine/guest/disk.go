package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dataDir is where a node keeps everything that belongs on the disk.
	dataDir = "/var/lib/k8shost"

	// imageName is the file on the disk that holds the file system of dataDir.
	imageName = "disk.img"

	// diskPatience is far beyond what making or checking a file system takes: it is sparse.
	diskPatience = time.Minute
)

// errNoLoop: the host has no loop devices to give.
var errNoLoop = errors.New("no loop devices")

// readDisk reads the size of the machine's disk from its environment; zero where it is not told.
func readDisk(getenv func(string) string) (int64, error) {
	text := getenv(EnvDisk)
	if text == "" {
		return 0, nil
	}
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil || bytes <= 0 {
		return 0, fmt.Errorf("%s is %q, which is no number of bytes", EnvDisk, text)
	}
	return bytes, nil
}

// attachDisk puts what a node keeps onto the machine's disk. A file system of the disk's size, in a sparse file, makes
// the node see that size and keeps it within; where the host has no loop devices, it is a plain directory.
func attachDisk(bytes int64) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	err := errNoLoop
	if bytes > 0 {
		err = mountImage(filepath.Join(DiskDir, imageName), bytes, dataDir)
	}
	if errors.Is(err, errNoLoop) {
		err = bindPlain(filepath.Join(DiskDir, filepath.Base(dataDir)))
	}
	if err != nil {
		return err
	}
	if err := bringBack(keptDir, keptWhole, keptChanges); err != nil {
		return err
	}
	// A service manager opens the log before the node's own program runs.
	return os.MkdirAll(filepath.Join(dataDir, "logs"), 0o700)
}

func bindPlain(kept string) error {
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	return bindDirectory(kept, dataDir)
}

// bindDirectory shows a directory of the disk at another place.
func bindDirectory(kept, target string) error {
	if err := unix.Mount(kept, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	// It is shared with containers, but not with the place that it comes from: mounts would be there twice.
	if err := unix.Mount("", target, "", unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("", target, "", unix.MS_SHARED, "")
}

func mountImage(image string, bytes int64, target string) error {
	if err := prepareImage(image, bytes); err != nil {
		return err
	}
	device, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer device.Close() //nolint:errcheck // the mount holds it; without one, closing lets go of it
	// The disk lasts as long as the machine, which does not outlive its host: nothing need reach the platter in order.
	if err := unix.Mount(device.Name(), target, "ext4", unix.MS_NOATIME, "nobarrier,discard"); err != nil {
		return fmt.Errorf("mount %s: %w", image, err)
	}
	return os.Chmod(target, 0o700) //nolint:gosec // a directory
}

// prepareImage makes the file system, or mends the one of an earlier start. One that cannot be mended is made anew: the
// machine then has an empty disk, as it had when it was made.
func prepareImage(image string, bytes int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), diskPatience)
	defer cancel()
	if _, err := os.Stat(image); err == nil {
		if err := run(ctx, "e2fsck", "-p", image); err == nil {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := image + ".new"
	file, err := os.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(bytes), file.Close()); err != nil {
		return err
	}
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, image)
}

// run runs a program of the machine's. A check that has mended something says so by its exit code, and is no failure.
func run(ctx context.Context, program string, args ...string) error {
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && program == "e2fsck" && ended.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// attachLoop gives a file a block device, which goes when its last user is gone.
func attachLoop(image string) (*os.File, error) {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the device has it
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLoop, err)
	}
	defer control.Close() //nolint:errcheck // only asked
	const rounds = 100
	for range rounds { // another machine may take the free device first
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoLoop, err)
		}
		device, err := openLoop(number)
		if err != nil {
			return nil, err
		}
		settings := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &settings)
		if err == nil {
			return device, nil
		}
		_ = device.Close() // it is another's
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach %s: %w", image, err)
		}
	}
	return nil, fmt.Errorf("%w: all are taken", errNoLoop)
}

// openLoop opens a loop device. The host's list of devices has it; the machine's, made when it started, may not.
func openLoop(number int) (*os.File, error) {
	const loopMajor = 7
	name := fmt.Sprintf("/dev/loop%d", number)
	device := unix.Mkdev(loopMajor, uint32(number))
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(device)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w", errNoLoop, err)
	}
	opened, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLoop, err)
	}
	return opened, nil
}
