package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// leftovers lists what the node left on the host, outside of its data directory and in it.
func (n *Node) leftovers() []string {
	var left []string
	note := func(what string, found []string, err error) {
		if err != nil {
			found = append(found, err.Error())
		}
		for _, item := range found {
			left = append(left, what+": "+item)
		}
	}
	mounts, err := mountsBelow(n.Data.Path(), n.Data.Runtime())
	note("mount", mounts, err)
	for _, path := range []string{n.Data.Path(), n.Data.Runtime()} {
		if _, err := os.Lstat(path); err == nil {
			note("directory", []string{path}, nil)
		}
	}
	for _, marker := range []string{n.Data.Path() + "/", n.Data.Runtime() + "/"} {
		for _, pid := range ProcessesWith(marker) {
			note("process", []string{describeProcess(pid)}, nil)
		}
	}
	inside, err := n.processesInside()
	note("process in its network namespace", inside, err)
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		cgroups, err := filepath.Glob(pattern + n.Data.Cgroup())
		note("cgroup", cgroups, err)
	}
	links, err := linksInto(n.Data.Path(), "/var/log/containers", "/var/log/pods")
	note("link", links, err)
	interfaces, err := n.list("ip", "-brief", "link", "show")
	interfaces = slices.DeleteFunc(interfaces, func(line string) bool {
		return strings.HasPrefix(line, "lo ") || strings.HasPrefix(line, "eth0@")
	})
	note("interface", interfaces, err)
	tables, err := n.list("nft", "list", "tables")
	note("nftables", tables, err)
	return left
}

// list runs a program in the node's network namespace and returns the lines it prints.
func (n *Node) list(program ...string) ([]string, error) {
	cmd := exec.Command("nsenter", append([]string{"--net=" + namespacePath(n.namespace), "--"}, program...)...)
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(program, " "), err)
	}
	return strings.FieldsFunc(string(output), func(r rune) bool { return r == '\n' }), nil
}

func (n *Node) processesInside() ([]string, error) {
	own, err := os.Stat(namespacePath(n.namespace))
	if err != nil {
		return nil, err
	}
	var inside []string
	for _, pid := range processes() {
		if pid == os.Getpid() {
			continue // Dial may have used its first thread, which Go parks instead of ending
		}
		other, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && os.SameFile(own, other) {
			inside = append(inside, describeProcess(pid))
		}
	}
	return inside, nil
}

// mountsBelow lists the mount points inside of directories.
func mountsBelow(dirs ...string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		below := func(dir string) bool { return m.Mountpoint == dir || strings.HasPrefix(m.Mountpoint, dir+"/") }
		return !slices.ContainsFunc(dirs, below), false
	})
	var points []string
	for _, mount := range mounts {
		points = append(points, mount.Mountpoint)
	}
	return points, err
}

func linksInto(dir string, places ...string) ([]string, error) {
	var found []string
	for _, place := range places {
		entries, err := os.ReadDir(place)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			path := filepath.Join(place, entry.Name())
			if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, dir+"/") {
				found = append(found, path)
			}
		}
	}
	return found, nil
}

// sweep removes what there is of this lab, whoever left it.
func (l *Lab) sweep() error {
	for _, pid := range ProcessesWith(l.Dir + "/") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
	}
	var problems []error
	entries, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			problems = append(problems, l.sweepNode(entry.Name()))
		}
	}
	namespaces, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		problems = append(problems, err)
	}
	for _, namespace := range namespaces {
		if strings.HasPrefix(namespace.Name(), l.name+"-") {
			output, err := exec.Command("ip", "netns", "delete", namespace.Name()).CombinedOutput()
			if err != nil {
				problems = append(problems, fmt.Errorf("delete network namespace %s: %w: %s", namespace.Name(), err, output))
			}
		}
	}
	mounts, err := mountsBelow(l.Dir)
	problems = append(problems, err)
	for _, mount := range slices.Backward(mounts) {
		problems = append(problems, syscall.Unmount(mount, syscall.MNT_DETACH))
	}
	return errors.Join(append(problems, os.RemoveAll(l.Dir))...)
}

// sweepNode takes down what is left of a node. That happens in the node's own network namespace, or in a new one where
// it has none any more: rules of the host's own namespace are not the lab's.
func (l *Lab) sweepNode(name string) error {
	n := &Node{Name: name, Data: datadir.New(filepath.Join(l.Dir, name)), lab: l, namespace: l.namespace(name)}
	if _, err := os.Stat(namespacePath(n.namespace)); err != nil {
		if err := makeNamespace(n.namespace); err != nil {
			return err
		}
	}
	if output, err := n.run(stopPatience, "", "down", "--data-dir", n.Data.Path(), "--purge"); err != nil {
		return fmt.Errorf("take %s down: %w: %s", name, err, output)
	}
	return nil
}

// ProcessesWith lists the processes that have a text in their command line, this one excepted.
func ProcessesWith(text string) []int {
	var found []int
	for _, pid := range processes() {
		if pid != os.Getpid() && strings.Contains(commandLine(pid), text) {
			found = append(found, pid)
		}
	}
	return found
}

func processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "" // it has ended
	}
	return string(bytes.ReplaceAll(bytes.TrimRight(content, "\x00"), []byte{0}, []byte{' '}))
}

func describeProcess(pid int) string { return fmt.Sprintf("%d %.200s", pid, commandLine(pid)) }

// StartTime tells when a process began, in the kernel's own unit: together with its id it names one process and never
// another.
func StartTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The command, in parentheses, may hold anything; the start is the 20th field after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("read start of process %d: unexpected form", pid)
	}
	return fields[19], nil
}

// ComponentPID is the process of one of the node's components.
func (n *Node) ComponentPID(component string) (int, error) {
	content, err := os.ReadFile(filepath.Join(n.Data.Run(), component+".pid"))
	if err != nil {
		return 0, err
	}
	var pid int
	_, err = fmt.Sscan(string(content), &pid)
	return pid, err
}

// Owns tells whether a process belongs to one of the node's pods, by the cgroup it is in.
func (n *Node) Owns(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && bytes.Contains(content, []byte("/"+n.Data.Cgroup()+"/"))
}
