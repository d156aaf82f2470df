//go:build bench

package k8shost

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// program is a running process of a node.
type program struct {
	pid  int
	name string
	pss  int64 // what it holds in memory, pages it shares counted in parts
	rss  int64 // the same, shared pages counted in full
	cpu  time.Duration
}

// serverPrograms are the launcher and all its children, down to the last, without the shims of pods.
func serverPrograms(node *lab.Node) ([]program, error) {
	children, err := processTree()
	if err != nil {
		return nil, err
	}
	var found []program
	for pending := []int{node.PID()}; len(pending) > 0; pending = pending[1:] {
		p, err := readProgram(pending[0])
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.name, "containerd-shim") {
			continue
		}
		found = append(found, p)
		pending = append(pending, children[p.pid]...)
	}
	slices.SortFunc(found, func(a, b program) int { return int(b.pss - a.pss) })
	return found, nil
}

// podPrograms are the shims of the node's pods, and what runs in the pods.
func podPrograms(node *lab.Node) (shims, pods []program, err error) {
	children, err := processTree()
	if err != nil {
		return nil, nil, err
	}
	for _, pid := range lab.ProcessesWith(node.Data.ContainerdSocket()) {
		p, err := readProgram(pid)
		if err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(p.name, "containerd-shim") {
			continue
		}
		shims = append(shims, p)
		for pending := slices.Clone(children[pid]); len(pending) > 0; pending = pending[1:] {
			if p, err = readProgram(pending[0]); err != nil {
				return nil, nil, err
			}
			pods = append(pods, p)
			pending = append(pending, children[p.pid]...)
		}
	}
	return shims, pods, nil
}

// processTree lists the children of every process.
func processTree() (map[int][]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields, err := readStat(pid); err == nil { // it may have ended just now
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

// readStat returns the fields of a process's stat after its name: state, parent and so on.
func readStat(pid int) ([]string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("read process %d: unexpected form", pid)
	}
	return fields, nil
}

// tick is the unit in which the kernel counts processor time for us: 1/100 s on every architecture we know.
const tick = 10 * time.Millisecond

func readProgram(pid int) (program, error) {
	p := program{pid: pid}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return p, err
	}
	name, _, _ := bytes.Cut(cmdline, []byte{0})
	p.name = filepath.Base(string(name))
	fields, err := readStat(pid)
	if err != nil {
		return p, err
	}
	for _, field := range fields[11:13] { // user and system time
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("read processor time of process %d: %w", pid, err)
		}
		p.cpu += time.Duration(ticks) * tick
	}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return p, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "Pss: %d kB", &kib); err == nil {
			p.pss = kib * 1024
		} else if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &kib); err == nil {
			p.rss = kib * 1024
		}
	}
	return p, nil
}

func sum(programs []program, of func(program) int64) (total int64) {
	for _, p := range programs {
		total += of(p)
	}
	return total
}

func pss(p program) int64 { return p.pss }
func rss(p program) int64 { return p.rss }

// serverBinaries are the files of the release that a single server with etcd uses.
var serverBinaries = []string{"k8shost", "prismnet", "etcd", "etcdutl", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback"}

// binarySizes is the size of the programs that a server uses, Kubernetes itself first.
func binarySizes(catalogue *release.Catalogue, version string) (map[string]int64, error) {
	kube, err := catalogue.Kube(version)
	if err != nil {
		return nil, err
	}
	paths := []string{kube}
	for _, name := range serverBinaries {
		path, err := catalogue.Binary(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	sizes := map[string]int64{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		sizes[filepath.Base(path)] = info.Size()
	}
	return sizes, nil
}

// diskUse is what a directory takes on its own file system, as du(1) counts it.
func diskUse(dir string) (int64, error) {
	var total int64
	var device uint64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it was there a moment ago
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it was there a moment ago
		}
		stat := info.Sys().(*syscall.Stat_t)
		if path == dir {
			device = stat.Dev
		}
		if stat.Dev != device {
			return fs.SkipDir
		}
		total += stat.Blocks * 512
		return nil
	})
	return total, err
}
