package component

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func shell(t *testing.T, script string, spec Spec) *Process {
	t.Helper()
	dir := t.TempDir()
	spec.Path, spec.Args = "/bin/sh", []string{"-c", script}
	spec.LogDir, spec.RunDir = dir, dir
	if spec.Name == "" {
		spec.Name = "sh"
	}
	return NewProcess(quiet(), spec)
}

func start(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
}

func fileExists(path string) func(context.Context) error {
	return func(context.Context) error {
		_, err := os.Stat(path)
		return err
	}
}

func TestProcessThatCannotStartIsReportedWithItsLastWords(t *testing.T) {
	p := shell(t, "echo 'cannot bind: address in use' >&2; exit 3", Spec{Probe: func(context.Context) error { return errors.New("not yet") }})
	start(t, p)
	err := p.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "address in use") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("Ready = %v, want the exit status and the last words", err)
	}
}

func TestProcessIsRestartedAfterItWasReady(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "count")
	p := shell(t, "echo x >> "+mark+"; exec sleep 60", Spec{Probe: fileExists(mark)})
	start(t, p)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	first := p.cmd.Process.Pid
	p.mu.Unlock()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := Poll(ctx, func(context.Context) error {
		content, err := os.ReadFile(mark)
		if err == nil && strings.Count(string(content), "x") < 2 {
			err = errors.New("started once only")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStopIsGentleFirst(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	p := shell(t, "trap 'echo bye > "+mark+".end; exit 0' TERM; touch "+mark+"; while :; do sleep 0.05; done", Spec{Probe: fileExists(mark)})
	start(t, p)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark + ".end"); err != nil {
		t.Fatal("the process was not given the time to end by itself")
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	p := shell(t, "trap '' TERM; touch "+mark+"; while :; do sleep 0.05; done", Spec{Probe: fileExists(mark), Grace: 200 * time.Millisecond})
	start(t, p)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("Stop took longer than the grace period by far")
	}
}

func TestReadinessIsNotTakenFromAStranger(t *testing.T) {
	p := shell(t, "exit 1", Spec{Probe: func(context.Context) error { return nil }})
	if err := p.probe(t.Context()); err == nil {
		t.Fatal("a process that does not run counts as ready")
	}
}

// TestChildrenDieWithTheLauncher runs a launcher in a process of its own and kills it with -9.
func TestChildrenDieWithTheLauncher(t *testing.T) {
	if dir := os.Getenv("COMPONENT_TEST_LAUNCHER"); dir != "" {
		p := NewProcess(quiet(), Spec{Name: "child", Path: "/bin/sleep", Args: []string{"120"}, LogDir: dir, RunDir: dir})
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {} // until killed
	}
	dir := t.TempDir()
	launcher := exec.Command(os.Args[0], "-test.run", "^TestChildrenDieWithTheLauncher$")
	launcher.Env = append(os.Environ(), "COMPONENT_TEST_LAUNCHER="+dir)
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var child int
	err := Poll(ctx, func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(dir, "child.pid"))
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(string(content), &child)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = launcher.Process.Kill()
	_ = launcher.Wait()
	if err := Poll(ctx, func(context.Context) error {
		if zombie(child) {
			return nil
		}
		return fmt.Errorf("process %d goes on", child)
	}); err != nil {
		t.Fatal(err)
	}
	leftovers, err := Leftovers(dir)
	if err != nil || len(leftovers) != 0 {
		t.Fatalf("Leftovers = %v, %v; want none", leftovers, err)
	}
}

func TestLeftoversAreFoundAndEndedAndStrangersAreNot(t *testing.T) {
	dir := t.TempDir()
	left := exec.Command("/bin/sleep", "120")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Process.Kill(); _ = left.Wait() }()
	if err := writePID(filepath.Join(dir, "etcd.pid"), left.Process.Pid); err != nil {
		t.Fatal(err)
	}
	// This process's id with another start time: whoever was recorded is gone.
	stranger := strconv.Itoa(os.Getpid()) + " 1\n"
	if err := os.WriteFile(filepath.Join(dir, "kubelet.pid"), []byte(stranger), 0o600); err != nil {
		t.Fatal(err)
	}
	leftovers, err := Leftovers(dir)
	if err != nil || len(leftovers) != 1 || leftovers[0].Name != "etcd" {
		t.Fatalf("Leftovers = %v, %v; want etcd alone", leftovers, err)
	}
	go func() { _ = left.Wait() }()
	if err := leftovers[0].End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(files) != 0 {
		t.Fatalf("records left: %v", files)
	}
}
