// Package host finds out what the machine k8shost runs on can do, so that the
// launcher configures kubelet, containerd and kube-proxy to suit instead of
// failing inside of them.
//
// Detect collects the Facts: cgroups, systemd, capabilities, limits, and kernel
// features, the latter by trying them in throw-away namespaces rather than by
// reading version numbers. Facts.Settings derives what the components are told,
// Check what a person is told (`k8shost check`). The cgroup trees and ports of a
// node are looked after here too. Nothing in this room knows about flags or
// starts a program.
package host

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// Options say where to look and what will be needed.
type Options struct {
	// DataDir is where the node will keep its data; it need not exist yet.
	DataDir string
	// Ports are those the components will listen on.
	Ports []Port
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Root stands before /proc, /sys, /dev and /run. It is empty on a live host; with a
	// root of its own, Detect reads that tree and tries nothing, because a trial tells
	// about the running kernel and not about the tree.
	Root string
}

// Facts is what was found. It holds no secrets and prints as JSON.
type Facts struct {
	Identity
	Kernel       string            `json:"kernel"`
	CPUs         int               `json:"cpus"`
	Memory       uint64            `json:"memoryBytes"`
	Swap         []string          `json:"swap,omitempty"`
	Systemd      bool              `json:"systemd"`
	Cgroup       Cgroup            `json:"cgroup"`
	Capabilities []string          `json:"capabilities"`
	RootShared   bool              `json:"rootMountShared"`
	Disk         Disk              `json:"disk"`
	OpenFiles    uint64            `json:"openFilesLimit"`
	Sysctls      map[string]Sysctl `json:"sysctls"`
	Programs     map[string]string `json:"programs"`
	Clock        Clock             `json:"clock"`
	Ports        []PortState       `json:"ports,omitempty"`
	// Trials is nil when Detect looked at a tree other than the running host's.
	Trials *Trials `json:"trials,omitempty"`
}

// Identity is how the host is known on its network.
type Identity struct {
	Hostname string `json:"hostname"`
	// Address is the IPv4 address on the interface of the default route, or the only
	// one there is; invalid where neither tells.
	Address netip.Addr `json:"address"`
}

// Clock compares the time with one that has certainly passed.
type Clock struct {
	Now   time.Time `json:"now"`
	Floor time.Time `json:"floor"`
}

// Behind reports whether the clock cannot be right. A day is let pass because the
// floor comes from other machines' clocks.
func (c Clock) Behind() bool { return c.Now.Before(c.Floor.Add(-24 * time.Hour)) }

// programs that components run, looked up in PATH.
func programs() []string { return []string{"nft", "mount", "umount", "conntrack", "iptables"} }

// Detect finds the facts. What is absent is a fact, not an error; an error means that
// the host could not be read at all.
func Detect(o Options) (Facts, error) {
	dataDir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return Facts{}, fmt.Errorf("resolve data directory %s: %w", o.DataDir, err)
	}
	identity, err := DetectIdentity()
	if err != nil {
		return Facts{}, err
	}
	cgroup, err := DetectCgroup(o.Root)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{
		Identity: identity,
		Systemd:  isDir(filepath.Join(o.Root, "/run/systemd/system")),
		Cgroup:   cgroup,
		Programs: findPrograms(),
		Clock:    readClock(o.Now),
		Sysctls:  readSysctls(o.Root),
	}
	if err := f.readMounts(o.Root, dataDir); err != nil {
		return Facts{}, err
	}
	if err := f.readResources(o.Root); err != nil {
		return Facts{}, err
	}
	if f.Capabilities, err = effectiveCapabilities(); err != nil {
		return Facts{}, err
	}
	if o.Root == "" {
		trials := try(f.Disk.Existing, cgroup)
		f.Trials = &trials
		f.Ports = ProbePorts(o.Ports)
	}
	return f, nil
}

func findPrograms() map[string]string {
	found := map[string]string{}
	for _, name := range programs() {
		if path, err := exec.LookPath(name); err == nil {
			found[name] = path
		}
	}
	return found
}

// readClock takes as the floor the day this code was written or the day the running
// program was put on the disk, whichever is later.
func readClock(now func() time.Time) Clock {
	if now == nil {
		now = time.Now
	}
	floor := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	if exe, err := os.Executable(); err == nil {
		if info, err := os.Stat(exe); err == nil && info.ModTime().After(floor) {
			floor = info.ModTime().UTC()
		}
	}
	return Clock{Now: now().UTC(), Floor: floor}
}

// effectiveCapabilities lists the capabilities of this process as CAP_SYS_ADMIN and so on.
func effectiveCapabilities() ([]string, error) {
	state, err := capability.NewPid2(0)
	if err == nil {
		err = state.Load()
	}
	if err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	known, err := capability.ListSupported()
	if err != nil {
		return nil, fmt.Errorf("list capabilities: %w", err)
	}
	var names []string
	for _, c := range known {
		if state.Get(capability.EFFECTIVE, c) {
			names = append(names, "CAP_"+strings.ToUpper(c.String()))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Has reports whether this process holds a capability, named as CAP_SYS_ADMIN.
func (f *Facts) Has(capability string) bool { return slices.Contains(f.Capabilities, capability) }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
