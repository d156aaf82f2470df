package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Disk is the file system below the data directory.
type Disk struct {
	DataDir string `json:"dataDir"`
	// Existing is the data directory, or the nearest parent that exists.
	Existing   string `json:"existing"`
	FileSystem string `json:"fileSystem"`
	Size       uint64 `json:"sizeBytes"`
	// Free is what is left for an ordinary user, as kubelet counts it.
	Free       uint64 `json:"freeBytes"`
	Inodes     uint64 `json:"inodes"`
	FreeInodes uint64 `json:"freeInodes"`
}

// Sysctl is a kernel setting as it stands.
type Sysctl struct {
	Value    string `json:"value"`
	Writable bool   `json:"writable"`
}

// Sysctls that components write or depend on.
const (
	SysctlConntrackMax     = "net.netfilter.nf_conntrack_max"
	SysctlForward          = "net.ipv4.ip_forward"
	SysctlInotifyInstances = "fs.inotify.max_user_instances"
	SysctlInotifyWatches   = "fs.inotify.max_user_watches"
)

// kubeletSysctls are the values kubelet writes at its start, exiting where it cannot.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"vm.overcommit_memory":      "1",
		"vm.panic_on_oom":           "0",
		"kernel.panic":              "10",
		"kernel.panic_on_oops":      "1",
		"kernel.keys.root_maxkeys":  "1000000",
		"kernel.keys.root_maxbytes": "25000000",
	}
}

func readSysctls(root string) map[string]Sysctl {
	names := []string{SysctlConntrackMax, SysctlForward, SysctlInotifyInstances, SysctlInotifyWatches}
	for name := range kubeletSysctls() {
		names = append(names, name)
	}
	found := map[string]Sysctl{}
	for _, name := range names {
		path := filepath.Join(root, "/proc/sys", strings.ReplaceAll(name, ".", "/"))
		value, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		found[name] = Sysctl{Value: strings.TrimSpace(string(value)), Writable: writable(path)}
	}
	return found
}

// writable opens a file for writing without writing: the kernel decides by namespace,
// mode and mount, which no reading of mode bits would tell.
func writable(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// readMounts finds the propagation of the root mount and the file system of the data directory.
func (f *Facts) readMounts(root, dataDir string) error {
	mounts, err := readMountinfo(root)
	if err != nil {
		return err
	}
	existing, err := nearestExisting(dataDir)
	if err != nil {
		return err
	}
	f.Disk = Disk{DataDir: dataDir, Existing: existing}
	resolved, err := filepath.EvalSymlinks(existing)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", existing, err)
	}
	longest := -1
	for _, m := range mounts {
		// Of several mounts at one place the last one is the one that is seen.
		if m.Mountpoint == "/" {
			f.RootShared = strings.Contains(m.Optional, "shared:")
		}
		if within(m.Mountpoint, resolved) && len(m.Mountpoint) >= longest {
			longest = len(m.Mountpoint)
			f.Disk.FileSystem = m.FSType
		}
	}
	return f.Disk.measure()
}

func within(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

func (d *Disk) measure() error {
	var s unix.Statfs_t
	if err := unix.Statfs(d.Existing, &s); err != nil {
		return fmt.Errorf("measure file system of %s: %w", d.Existing, err)
	}
	block := uint64(s.Bsize)
	d.Size, d.Free = s.Blocks*block, s.Bavail*block
	d.Inodes, d.FreeInodes = s.Files, s.Ffree
	return nil
}

func nearestExisting(path string) (string, error) {
	for {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return "", fmt.Errorf("look for data directory: %w", err)
		}
		path = filepath.Dir(path)
	}
}

func readMountinfo(root string) ([]*mountinfo.Info, error) {
	file, err := os.Open(filepath.Join(root, "/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	mounts, err := mountinfo.GetMountsFromReader(file, nil)
	if err != nil {
		return nil, fmt.Errorf("parse mounts: %w", err)
	}
	return mounts, nil
}

// readResources finds memory, swap, processors and the limit of open files.
func (f *Facts) readResources(root string) error {
	f.Kernel = kernelRelease()
	f.CPUs = runtime.NumCPU()
	memory, err := readMemory(filepath.Join(root, "/proc/meminfo"))
	if err != nil {
		return err
	}
	f.Memory = memory
	if f.Swap, err = readSwap(filepath.Join(root, "/proc/swaps")); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read limit of open files: %w", err)
	}
	f.OpenFiles = limit.Max
	return nil
}

func readMemory(path string) (uint64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read memory size: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		rest, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse %s: %w", path, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("parse %s: no MemTotal", path)
}

// readSwap lists the swap areas in use. A kernel without swap has no such file.
func readSwap(path string) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read swap areas: %w", err)
	}
	defer func() { _ = file.Close() }()
	var areas []string
	lines := bufio.NewScanner(file)
	for header := true; lines.Scan(); header = false {
		if fields := strings.Fields(lines.Text()); !header && len(fields) > 0 {
			areas = append(areas, fields[0])
		}
	}
	return areas, lines.Err()
}
