package remote_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

func TestASessionHasStreamsAndAnExitCode(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	var out, complaint bytes.Buffer
	err := client.Attach(newContext(t), remote.Session{
		Step: "terminal", Args: []string{"sh", "-c", `cat; echo "it's $0 $(id -un)"; echo oh >&2; exit 7`, "a b"},
		Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &complaint,
	})
	if code, ok := remote.ExitCode(err); !ok || code != 7 {
		t.Errorf("error %v", err)
	}
	if out.String() != "typed\nit's a b root\n" || complaint.String() != "oh\n" {
		t.Errorf("%q, %q", out.String(), complaint.String())
	}
	out.Reset()
	if err := client.Attach(newContext(t), remote.Session{Step: "terminal", Stdin: strings.NewReader("echo a shell; exit\n"), Stdout: &out, Stderr: io.Discard}); err != nil || !strings.Contains(out.String(), "a shell") {
		t.Errorf("%q: %v", out.String(), err)
	}
}

func TestATerminalHasASize(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	in, keyboard := io.Pipe()
	out := &screen{shown: make(chan string, 1000)}
	sizes := make(chan remote.Size)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Attach(newContext(t), remote.Session{Step: "terminal", Args: []string{"sh"}, Stdin: in, Stdout: out, Terminal: "xterm", Sizes: sizes})
	}()
	sizes <- remote.Size{Width: 132, Height: 43}
	// A size that has arrived is behind what was typed after it.
	_, _ = io.WriteString(keyboard, "stty size; exit 3\n")
	out.await(t, "43 132")
	if code, ok := remote.ExitCode(<-ended); !ok || code != 3 {
		t.Errorf("exit code %d", code)
	}
}

// screen shows what is written to it.
type screen struct {
	shown chan string
	seen  string
}

func (s *screen) Write(p []byte) (int, error) {
	s.shown <- string(p)
	return len(p), nil
}

func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.seen, text) {
		select {
		case more := <-s.shown:
			s.seen += more
		case <-deadline:
			t.Fatalf("%q is not in %q", text, s.seen)
		}
	}
}

func TestAnotherUsersSessionIsRoots(t *testing.T) {
	host := sshtest.Start(t)
	host.AddUser("ops", "ops ALL=(ALL) NOPASSWD: ALL")
	there := where(t, host)
	there.User = "ops"
	var out bytes.Buffer
	err := newPool(t, impatient).Client(there).Attach(newContext(t), remote.Session{Step: "terminal", Args: []string{"id", "-un"}, Stdout: &out, Stderr: io.Discard})
	if err != nil || out.String() != "root\n" {
		t.Errorf("%q: %v", out.String(), err)
	}
}

func TestASessionEndsWithItsCallerAndItsConnection(t *testing.T) {
	host := sshtest.Start(t)
	client := newPool(t, impatient).Client(where(t, host))
	out := &screen{shown: make(chan string, 1000)}
	session := remote.Session{Step: "terminal", Args: []string{"sh", "-c", "echo here; sleep 1000"}, Stdout: out, Stderr: io.Discard}
	ctx, cancel := context.WithCancel(newContext(t))
	ended := make(chan error, 1)
	go func() { ended <- client.Attach(ctx, session) }()
	out.await(t, "here")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	out.seen = ""
	go func() { ended <- client.Attach(newContext(t), session) }()
	out.await(t, "here")
	host.Disconnect()
	if err := <-ended; !errors.Is(err, remote.ErrLost) {
		t.Error(err)
	}
}
