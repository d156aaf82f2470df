// Package exit gives the errors of commands what a script and a person need: an exit code, and a hint of what to do
// next. Errors of the management API are put into words here, so that every command fails in the same way.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Code is how a command ends. Scripts rely on the numbers.
type Code int

// The exit codes, as docs/cli.md lists them.
const (
	OK          Code = 0
	Failed      Code = 1
	Usage       Code = 2
	NotFound    Code = 3
	Refused     Code = 4
	TimedOut    Code = 5
	LoggedOut   Code = 6
	Interrupted Code = 130
)

// Error is an error with its exit code.
type Error struct {
	Code Code
	Hint string // what to do next; may be empty
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// With gives an error its code and hint.
func With(code Code, hint string, err error) error { return &Error{Code: code, Hint: hint, Err: err} }

// Usagef is a complaint about the command line.
func Usagef(format string, values ...any) error {
	return With(Usage, "", fmt.Errorf(format, values...))
}

// NotFoundf says that something is not there.
func NotFoundf(hint, format string, values ...any) error {
	return With(NotFound, hint, fmt.Errorf(format, values...))
}

// Refusedf says that something may not, or cannot, be done.
func Refusedf(hint, format string, values ...any) error {
	return With(Refused, hint, fmt.Errorf(format, values...))
}

// Of is the exit code of an error.
func Of(err error) Code {
	code, _, _ := explain(err)
	return code
}

// Report tells a person what went wrong and what to do next.
func Report(w io.Writer, err error) {
	_, message, hint := explain(err)
	fmt.Fprintf(w, "cloud: %s\n", message)
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// explain finds code, message and hint of an error. What a command said of it itself goes before what is known of the
// cause.
func explain(err error) (code Code, message, hint string) {
	if err == nil {
		return OK, "", ""
	}
	code, message, hint = cause(err)
	if known, ok := errors.AsType[*Error](err); ok {
		code = known.Code
		if known.Hint != "" {
			hint = known.Hint
		}
	}
	return code, message, hint
}

func cause(err error) (code Code, message, hint string) {
	if code, message, hint, ok := ofAPI(err); ok {
		return code, message, hint
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Interrupted, err.Error(), ""
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut, err.Error(), "--timeout sets how long to wait"
	}
	if hint, ok := ofConnection(err); ok {
		return Failed, err.Error(), hint
	}
	return Failed, err.Error(), ""
}
