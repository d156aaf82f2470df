package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// evacuated is where the processes of a v2 cgroup go that has to hand out controllers:
// the kernel lets a cgroup do that or have processes, not both, and in a container
// everything starts in the topmost cgroup that can be seen.
const evacuated = "init"

// Ensure makes a cgroup of that name (which may have several levels) in every hierarchy,
// ready for kubelet to be its root: with cpus and memory nodes on v1, with its
// controllers handed down on v2. Doing it again changes nothing.
func (c *Cgroup) Ensure(name string) error {
	levels, err := cgroupLevels(name)
	if err != nil {
		return err
	}
	for _, h := range c.Hierarchies {
		if err := h.ensure(levels, c.Mode == CgroupV2); err != nil {
			return fmt.Errorf("make cgroup %s: %w", name, err)
		}
	}
	return nil
}

// Remove takes the cgroup of that name and everything below it out of every hierarchy.
// It ends no process: where some are left it is an error that lists them, wrapping
// EBUSY, and what is empty is removed all the same. A name that is not there is fine.
func (c *Cgroup) Remove(name string) error {
	if _, err := cgroupLevels(name); err != nil {
		return err
	}
	var failed []error
	for _, h := range c.Hierarchies {
		if err := removeTree(filepath.Join(h.Mount, name)); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// Processes lists the processes in the cgroup of that name and below, in any hierarchy.
func (c *Cgroup) Processes(name string) ([]int, error) {
	if _, err := cgroupLevels(name); err != nil {
		return nil, err
	}
	var all []int
	for _, h := range c.Hierarchies {
		err := filepath.WalkDir(filepath.Join(h.Mount, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				var pids []int
				pids, err = processes(path)
				all = append(all, pids...)
			}
			if gone(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", name, err)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func cgroupLevels(name string) ([]string, error) {
	name = strings.TrimPrefix(name, "/")
	if name == "" || !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return nil, fmt.Errorf("use cgroup %q: not a plain path below the cgroup root", name)
	}
	return strings.Split(name, "/"), nil
}

func (h *Hierarchy) ensure(levels []string, handDown bool) error {
	dir := h.Mount
	for _, level := range levels {
		if h.Unified && handDown {
			if err := enableControllers(dir); err != nil {
				return err
			}
		}
		parent := dir
		dir = filepath.Join(dir, level)
		if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if !h.Unified && slices.Contains(h.Controllers, "cpuset") {
			if err := inheritCpuset(parent, dir); err != nil {
				return err
			}
		}
	}
	if h.Unified && handDown {
		return enableControllers(dir)
	}
	return nil
}

// inheritCpuset copies the cpus and memory nodes down: a v1 cpuset is born empty, and no
// process can enter an empty one.
func inheritCpuset(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		now, err := os.ReadFile(filepath.Join(child, file))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(now)) != "" {
			continue
		}
		inherited, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, file), inherited, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers lets the children of a v2 cgroup have the controllers kubelet and
// runc use, as far as they are there.
func enableControllers(dir string) error {
	available, err := readWords(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	handedDown := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := readWords(handedDown)
	if err != nil {
		return err
	}
	for _, name := range []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} {
		if !slices.Contains(available, name) || slices.Contains(enabled, name) {
			continue
		}
		err := writeCgroup(handedDown, "+"+name)
		if errors.Is(err, unix.EBUSY) {
			if err = evacuate(dir); err == nil {
				err = writeCgroup(handedDown, "+"+name)
			}
		}
		if err != nil {
			return fmt.Errorf("enable controller %s below %s: %w", name, dir, err)
		}
	}
	return nil
}

// evacuate moves the processes of a cgroup to a leaf below it. Processes may start while
// it works, so that it goes over the list until it finds none.
func evacuate(dir string) error {
	leaf := filepath.Join(dir, evacuated)
	if err := os.Mkdir(leaf, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	const rounds = 10
	for range rounds {
		pids, err := processes(dir)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			err := writeCgroup(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move process %d to %s: %w", pid, leaf, err)
			}
		}
	}
	return fmt.Errorf("move processes out of %s: new ones keep coming: %w", dir, unix.EBUSY)
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	var failed []error
	for _, e := range entries {
		if e.IsDir() {
			failed = append(failed, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		pids, _ := processes(dir)
		return fmt.Errorf("remove cgroup %s (processes %v): %w", dir, pids, err)
	}
	return nil
}

// processes lists the processes directly in a cgroup. Those of other pid namespaces show
// as 0 and are left out.
func processes(dir string) ([]int, error) {
	words, err := readWords(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, word := range words {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("parse process list of %s: %w", dir, err)
		}
		if pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// gone reports that a cgroup has vanished, which its files tell by ENODEV.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

func writeCgroup(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
