package datadir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func (d Dir) launcherFile() string { return d.Path("run", "launcher") }

// RecordLauncher notes this process as the one that holds the directory; the caller has the lock.
func (d Dir) RecordLauncher() error {
	if err := os.MkdirAll(d.Run(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(d.launcherFile(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}

// Launcher returns the process that holds the directory. The lock decides whether it runs: a recorded id alone may
// belong to a stranger by now.
func (d Dir) Launcher() (pid int, running bool) {
	content, err := os.ReadFile(d.launcherFile())
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, false
	}
	return pid, d.locked()
}

func (d Dir) locked() bool {
	file, err := os.OpenFile(d.Path("lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// Exists tells whether a node ever used the directory.
func (d Dir) Exists() (bool, error) {
	if _, err := os.Stat(d.Path("lock")); err == nil {
		return true, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("look at data directory: %w", err)
	}
	return false, nil
}

func (d Dir) readyFile() string { return d.Path("run", "ready") }

// MarkReady notes that the node does its job; ClearReady that it does not yet.
func (d Dir) MarkReady() error { return os.WriteFile(d.readyFile(), nil, 0o600) }

// ClearReady takes the note of MarkReady back.
func (d Dir) ClearReady() error {
	if err := os.Remove(d.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Ready tells whether the launcher that holds the directory has brought its node up.
func (d Dir) Ready() bool {
	_, err := os.Stat(d.readyFile())
	return err == nil && d.locked()
}
