package plane

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tick is the unit in which the kernel counts processor time for us: 1/100 s on every architecture we know.
const tick = 10 * time.Millisecond

// children finds the programs that this process has started, by name.
func children(t testing.TB) map[string]int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields, err := stat(pid)
		if err != nil || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			name, _, _ := strings.Cut(string(cmdline), "\x00")
			found[filepath.Base(name)] = pid
		}
	}
	for _, name := range []string{Cloudd, APIServer, Etcd} {
		if found[name] == 0 {
			t.Fatalf("%s does not run", name)
		}
	}
	return found
}

// stat returns the fields of a process's stat after its name: state, parent and so on.
func stat(pid int) ([]string, error) {
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

// CPU is the processor time that each program has taken so far.
func (p *Plane) CPU(t testing.TB) map[string]time.Duration {
	t.Helper()
	times := map[string]time.Duration{}
	for name, pid := range p.programs {
		fields, err := stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields[11:13] { // user and system time
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			times[name] += time.Duration(ticks) * tick
		}
	}
	return times
}

// Since is what was spent meanwhile.
func Since(before, after map[string]time.Duration) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for name := range after {
		spent[name] = after[name] - before[name]
	}
	return spent
}

// Memory is what each program holds, pages that it shares counted in parts.
func (p *Plane) Memory(t testing.TB) map[string]int64 {
	t.Helper()
	held := map[string]int64{}
	for name, pid := range p.programs {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
			var kib int64
			if _, err := fmt.Sscanf(lines.Text(), "Pss: %d kB", &kib); err == nil {
				held[name] = kib * 1024
			}
		}
	}
	return held
}
