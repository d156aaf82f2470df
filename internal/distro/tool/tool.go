// Package tool runs the outside programs that the builder needs: go, gcc, debootstrap, tar and the like. What a
// program prints is kept and shown only if it fails. Its whole process group ends with the context, and with us.
package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// grace is how long a program that was told to end may take before it is killed.
const grace = 10 * time.Second

// shownOutput is how much of a failed program's output an error carries.
const shownOutput = 4000

// Call is one run of a program.
type Call struct {
	Name string
	Args []string
	Dir  string   // working directory; empty is ours
	Env  []string // added to our environment

	// OwnMounts runs the program in a mount namespace of its own: whatever it mounts is gone when it ends, however
	// it ends. Needs root.
	OwnMounts bool
}

// Run runs the program and returns what it wrote to standard output.
func Run(ctx context.Context, call Call) ([]byte, error) {
	var stdout bytes.Buffer
	err := Stream(ctx, call, &stdout)
	return stdout.Bytes(), err
}

// Stream runs the program with its standard output going to stdout.
func Stream(ctx context.Context, call Call, stdout io.Writer) error {
	command := exec.CommandContext(ctx, call.Name, call.Args...)
	command.Dir = call.Dir
	command.Env = append(os.Environ(), call.Env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if call.OwnMounts {
		command.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = grace
	var stderr bytes.Buffer
	command.Stdout, command.Stderr = stdout, &stderr
	err := command.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run %s: %w", call.Name, ctx.Err())
	}
	output := stderr.String()
	if buffer, ok := stdout.(*bytes.Buffer); ok { // some programs complain on standard output
		output = buffer.String() + output
	}
	return fmt.Errorf("run %s %s: %w%s", call.Name, strings.Join(call.Args, " "), err, tail(output))
}

func tail(output string) string {
	text := strings.TrimSpace(output)
	if text == "" {
		return ""
	}
	if len(text) > shownOutput {
		text = "…" + text[len(text)-shownOutput:]
	}
	return "\n" + text
}
