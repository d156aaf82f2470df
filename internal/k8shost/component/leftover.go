package component

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// writePID records a process by id and start time: an id alone may belong to a stranger after a reboot.
func writePID(file string, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%d %s\n", pid, start), 0o600)
}

// startTime returns when a process began, in the kernel's own unit.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the command in parentheses, may itself hold blanks and parentheses.
	_, rest, found := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return "", fmt.Errorf("read start time of process %d: unexpected form", pid)
	}
	return fields[19], nil
}

// Leftover is a recorded process that still runs.
type Leftover struct {
	Name string
	PID  int
	file string
}

// Leftovers returns the processes recorded in runDir that still run, and strikes the records of those that do not.
func Leftovers(runDir string) ([]Leftover, error) {
	files, err := filepath.Glob(filepath.Join(runDir, "*.pid"))
	if err != nil {
		return nil, err
	}
	var running []Leftover
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var pid int
		var recorded string
		_, scanErr := fmt.Sscan(string(content), &pid, &recorded)
		current, statErr := startTime(pid)
		if scanErr != nil || statErr != nil || current != recorded || zombie(pid) {
			if err := os.Remove(file); err != nil {
				return nil, err
			}
			continue
		}
		running = append(running, Leftover{Name: strings.TrimSuffix(filepath.Base(file), ".pid"), PID: pid, file: file})
	}
	return running, nil
}

// End kills the process and waits until it is gone.
func (l Leftover) End(ctx context.Context) error {
	before, err := startTime(l.PID)
	if err != nil {
		return os.Remove(l.file)
	}
	if err := syscall.Kill(l.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s (process %d): %w", l.Name, l.PID, err)
	}
	err = Poll(ctx, func(context.Context) error {
		after, err := startTime(l.PID)
		if err == nil && after == before && !zombie(l.PID) {
			return errors.New("process " + strconv.Itoa(l.PID) + " has not ended")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.Remove(l.file)
}

// zombie tells whether the process has ended and only waits to be collected by its parent. While other threads than the
// first are still ending, it holds its files and ports yet, although the kernel calls it a zombie already.
func zombie(pid int) bool {
	if threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil && len(threads) > 1 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	return strings.HasPrefix(rest, "Z")
}
