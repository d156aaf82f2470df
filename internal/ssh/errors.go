package remote

import (
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. An error of this package is an *Error that wraps one of these, or an *ExitError.
var (
	// ErrRefused: nothing listens there.
	ErrRefused = errors.New("connection refused")
	// ErrUnreachable: nothing answers there, or there is no way to it, or no such name.
	ErrUnreachable = errors.New("host unreachable")
	// ErrAuthentication: the host does not let us log in.
	ErrAuthentication = errors.New("login refused")
	// ErrHostKeyChanged: the host has another key than it had; a *HostKeyError has both.
	ErrHostKeyChanged = errors.New("host key changed")
	// ErrHostKeyUnknown: no key of the host is pinned, and it is not to be trusted at first use.
	ErrHostKeyUnknown = errors.New("host key unknown")
	// ErrLost: the connection ended in the middle. A command may have run, wholly or in part, and its effects stay.
	ErrLost = errors.New("connection lost")
	// ErrTimeout: it took longer than it may. A command was ended, unless the connection hangs too.
	ErrTimeout = errors.New("timed out")
	// ErrDiskFull: there is no room for a file.
	ErrDiskFull = errors.New("disk full")
	// ErrSudo: the user is not root and may not become it.
	ErrSudo = errors.New("cannot become root")
	// ErrArchitecture: the host is of another architecture than what is to run on it.
	ErrArchitecture = errors.New("wrong architecture")
	// ErrGuard: what shall be on the host, so that it may be worked on, is not there. See Client.Guarded.
	ErrGuard = errors.New("host has another owner")
)

// Error is what went wrong with a host. It says which host, at which step, and what a person can do about it.
type Error struct {
	Host, Step string
	// Kind is one of the errors above, or an *ExitError.
	Kind error
	// Cause is what is known besides; nil where that is nothing.
	Cause error
	// Remedy is what to do.
	Remedy string
}

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "host %s: ", e.Host)
	if e.Step != "" {
		fmt.Fprintf(&text, "%s: ", e.Step)
	}
	text.WriteString(e.Kind.Error())
	if e.Cause != nil && !strings.HasSuffix(e.Cause.Error(), e.Kind.Error()) {
		fmt.Fprintf(&text, ": %v", e.Cause)
	}
	if e.Remedy != "" {
		fmt.Fprintf(&text, "; %s", e.Remedy)
	}
	return text.String()
}

// Unwrap lets errors.Is and errors.As see both.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// ExitError is a command that ran and said that it failed.
type ExitError struct {
	Command string // its first word
	Code    int
	// Lines are the last that it wrote.
	Lines []string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s: exit code %d", e.Command, e.Code)
	if len(e.Lines) > 0 {
		text += ": " + strings.Join(e.Lines, " | ")
	}
	return text
}

// HostKeyError is a host that has another key than the one that is pinned.
type HostKeyError struct {
	// Pinned and Found are fingerprints; Found is empty where the host did not show one of the pinned key's kind.
	Pinned, Found string
}

func (e *HostKeyError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("pinned is %s, and the host has no key of that kind", e.Pinned)
	}
	return fmt.Sprintf("pinned is %s, found was %s", e.Pinned, e.Found)
}

// ExitCode is the exit code of the command that the error is about.
func ExitCode(err error) (code int, ok bool) {
	exit, ok := errors.AsType[*ExitError](err)
	if !ok {
		return 0, false
	}
	return exit.Code, true
}
