package tool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOutputIsReturned(t *testing.T) {
	out, err := Run(t.Context(), Call{Name: "sh", Args: []string{"-c", "echo $GREETING; echo noise >&2"}, Env: []string{"GREETING=hello"}})
	if err != nil || string(out) != "hello\n" {
		t.Errorf("Run = %q, %v", out, err)
	}
}

func TestAFailureShowsWhatWasPrinted(t *testing.T) {
	_, err := Run(t.Context(), Call{Name: "sh", Args: []string{"-c", "echo one; echo two >&2; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "one\ntwo") {
		t.Errorf("Run = %v", err)
	}
	_, err = Run(t.Context(), Call{Name: "sh", Args: []string{"-c", "yes | head -c 100000 >&2; exit 1"}})
	if err == nil || len(err.Error()) > shownOutput+200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestTheWholeGroupEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err := Run(ctx, Call{Name: "sh", Args: []string{"-c", "sleep 60 & wait"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v, want the deadline", err)
	}
	if took := time.Since(started); took > grace/2 {
		t.Errorf("took %v: the child was not ended", took)
	}
}

func TestMountsAreItsOwn(t *testing.T) {
	dir := t.TempDir()
	script := "mount -t tmpfs none " + dir + " && touch " + dir + "/inside"
	if _, err := Run(t.Context(), Call{Name: "sh", Args: []string{"-c", script}, OwnMounts: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := Run(t.Context(), Call{Name: "ls", Args: []string{dir}}); err != nil || len(out) != 0 {
		t.Errorf("the mount is seen outside: %q, %v", out, err)
	}
}
