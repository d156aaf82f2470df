package measure

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// Program is a running process of a node.
type Program struct {
	PID     int
	Name    string
	PSS     int64 // what it holds in memory, pages it shares counted in parts
	RSS     int64 // the same, shared pages counted in full
	Private int64 // pages that are its own alone
	CPU     time.Duration
}

// ServerPrograms are the launcher and all its children, down to the last, without the shims of pods.
func ServerPrograms(node *lab.Node) ([]Program, error) {
	children, err := processTree()
	if err != nil {
		return nil, err
	}
	var found []Program
	for pending := []int{node.PID()}; len(pending) > 0; pending = pending[1:] {
		p, err := readProgram(pending[0])
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.Name, "containerd-shim") {
			continue
		}
		found = append(found, p)
		pending = append(pending, children[p.PID]...)
	}
	slices.SortFunc(found, func(a, b Program) int { return int(b.PSS - a.PSS) })
	return found, nil
}

// PodPrograms are the shims of the node's pods, and what runs in the pods.
func PodPrograms(node *lab.Node) (shims, pods []Program, err error) {
	children, err := processTree()
	if err != nil {
		return nil, nil, err
	}
	for _, pid := range lab.ProcessesWith(node.Data.ContainerdSocket()) {
		p, err := readProgram(pid)
		if err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(p.Name, "containerd-shim") {
			continue
		}
		shims = append(shims, p)
		for pending := slices.Clone(children[pid]); len(pending) > 0; pending = pending[1:] {
			if p, err = readProgram(pending[0]); err != nil {
				return nil, nil, err
			}
			pods = append(pods, p)
			pending = append(pending, children[p.PID]...)
		}
	}
	return shims, pods, nil
}

// Descendants are a process's children, down to the last, as far as they are still there.
func Descendants(pid int) ([]Program, error) {
	children, err := processTree()
	if err != nil {
		return nil, err
	}
	var found []Program
	for pending := slices.Clone(children[pid]); len(pending) > 0; pending = pending[1:] {
		if p, err := readProgram(pending[0]); err == nil { // it may have ended just now
			found = append(found, p)
		}
		pending = append(pending, children[pending[0]]...)
	}
	return found, nil
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

func readProgram(pid int) (Program, error) {
	p := Program{PID: pid}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return p, err
	}
	name, _, _ := bytes.Cut(cmdline, []byte{0})
	p.Name = filepath.Base(string(name))
	fields, err := readStat(pid)
	if err != nil {
		return p, err
	}
	for _, field := range fields[11:13] { // user and system time
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("read processor time of process %d: %w", pid, err)
		}
		p.CPU += time.Duration(ticks) * tick
	}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return p, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "Pss: %d kB", &kib); err == nil {
			p.PSS = kib * 1024
		} else if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &kib); err == nil {
			p.RSS = kib * 1024
		} else if _, err := fmt.Sscanf(lines.Text(), "Private_Clean: %d kB", &kib); err == nil {
			p.Private += kib * 1024
		} else if _, err := fmt.Sscanf(lines.Text(), "Private_Dirty: %d kB", &kib); err == nil {
			p.Private += kib * 1024
		}
	}
	return p, nil
}

// Sum adds something up.
func Sum(programs []Program, of func(Program) int64) (total int64) {
	for _, p := range programs {
		total += of(p)
	}
	return total
}

// PSS is what a program holds in memory.
func PSS(p Program) int64 { return p.PSS }

// RSS is the same with shared pages in full.
func RSS(p Program) int64 { return p.RSS }
