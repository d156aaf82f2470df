package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// CgroupMode is how the cgroup file systems are laid out.
type CgroupMode string

const (
	// CgroupNone means that no cgroup file system is mounted below /sys/fs/cgroup.
	CgroupNone CgroupMode = "none"
	// CgroupV1 has one hierarchy per controller.
	CgroupV1 CgroupMode = "v1"
	// CgroupHybrid is v1 with a v2 hierarchy beside it that has few controllers or none.
	// To kubelet and runc it is v1.
	CgroupHybrid CgroupMode = "hybrid"
	// CgroupV2 has a single hierarchy.
	CgroupV2 CgroupMode = "v2"
)

// Cgroup is the cgroup layout of the host.
type Cgroup struct {
	Mode CgroupMode `json:"mode"`
	// Controllers of all hierarchies, sorted, without the named ones of v1.
	Controllers []string    `json:"controllers"`
	Hierarchies []Hierarchy `json:"hierarchies"`
}

// Hierarchy is one mounted cgroup tree.
type Hierarchy struct {
	Mount       string   `json:"mount"`
	Controllers []string `json:"controllers"`
	// Unified marks a v2 tree.
	Unified bool `json:"unified"`
}

const cgroupMount = "/sys/fs/cgroup"

// DetectCgroup reads the cgroup layout from the mounts below root ("" on a live host).
func DetectCgroup(root string) (Cgroup, error) {
	mounts, err := readMountinfo(root)
	if err != nil {
		return Cgroup{}, err
	}
	known, err := knownControllers(root)
	if err != nil {
		return Cgroup{}, err
	}
	var c Cgroup
	seen := map[[2]int]bool{}
	for _, m := range mounts {
		device := [2]int{m.Major, m.Minor}
		if !isCgroup(m) || seen[device] {
			continue
		}
		seen[device] = true
		h := Hierarchy{Mount: filepath.Join(root, m.Mountpoint), Unified: m.FSType == "cgroup2"}
		if h.Unified {
			if h.Controllers, err = readWords(filepath.Join(h.Mount, "cgroup.controllers")); err != nil {
				return Cgroup{}, fmt.Errorf("read cgroup controllers: %w", err)
			}
		} else {
			h.Controllers = v1Controllers(m.VFSOptions, known)
		}
		c.Hierarchies = append(c.Hierarchies, h)
	}
	c.Mode = c.mode(filepath.Join(root, cgroupMount))
	c.Controllers = c.controllers()
	return c, nil
}

// mode tells the layout. A v2 tree that is alone but not at the top is none that kubelet
// could use.
func (c *Cgroup) mode(top string) CgroupMode {
	var v1, v2 bool
	for _, h := range c.Hierarchies {
		if h.Unified && h.Mount == top {
			return CgroupV2
		}
		v1, v2 = v1 || !h.Unified, v2 || h.Unified
	}
	switch {
	case v1 && v2:
		return CgroupHybrid
	case v1:
		return CgroupV1
	default:
		return CgroupNone
	}
}

func isCgroup(m *mountinfo.Info) bool {
	return (m.FSType == "cgroup" || m.FSType == "cgroup2") && within(cgroupMount, m.Mountpoint)
}

// knownControllers lists what the kernel calls a controller, to tell them from the other
// options of a v1 mount. A kernel that has v2 only need not have the file.
func knownControllers(root string) ([]string, error) {
	file, err := os.Open(filepath.Join(root, "/proc/cgroups"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cgroup controllers: %w", err)
	}
	defer func() { _ = file.Close() }()
	var names []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			names = append(names, fields[0])
		}
	}
	return names, lines.Err()
}

func v1Controllers(options string, known []string) []string {
	var found []string
	for option := range strings.SplitSeq(options, ",") {
		if slices.Contains(known, option) || strings.HasPrefix(option, "name=") {
			found = append(found, option)
		}
	}
	return found
}

func (c *Cgroup) controllers() []string {
	var all []string
	for _, h := range c.Hierarchies {
		for _, name := range h.Controllers {
			if !strings.HasPrefix(name, "name=") {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// missingControllers are those kubelet cannot do without.
func (c *Cgroup) missingControllers() []string {
	needed := []string{"cpu", "cpuset", "memory", "pids"}
	if c.Mode != CgroupV2 {
		needed = append(needed, "cpuacct", "devices", "freezer")
	}
	return slices.DeleteFunc(needed, func(name string) bool { return slices.Contains(c.Controllers, name) })
}

func readWords(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(content)), nil
}
