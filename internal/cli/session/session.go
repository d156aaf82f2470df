// Package session is what a running command has to hand: its streams and environment, the context it works in, and, once
// asked for, the clients of the management API and of the identity service. It is made by main, and by tests with other
// parts; nothing else in the command line looks at the process it runs in.
package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
)

// Terminal is what is known of the streams.
type Terminal struct {
	In, Out, Err bool // whether each is one
	Width        func() int
	// ReadPassword reads a line that is not shown.
	ReadPassword func() (string, error)
	// Raw hands every key to who reads, until restore is called.
	Raw func() (restore func(), err error)
	// Sizes are that of the terminal, now and whenever it changes, until ctx ends.
	Sizes func(ctx context.Context) <-chan Size
}

// Size of a terminal, in characters.
type Size struct{ Width, Height int }

// Parts are what a session is made of.
type Parts struct {
	In         io.Reader
	Out, Err   io.Writer
	Terminal   Terminal
	Env        func(name string) string
	Now        func() time.Time
	Executable string // path of this program, for kubeconfigs that run it
	// Connect makes a client of the management API.
	Connect func(*rest.Config) (client.WithWatch, error)
}

// FromProcess returns the parts of this process.
func FromProcess() Parts {
	executable, err := os.Executable()
	if err != nil {
		executable = "cloud" // found by PATH then
	}
	terminal := func(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }
	return Parts{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Now: time.Now, Executable: executable, Connect: Connect,
		Terminal: Terminal{
			In: terminal(os.Stdin), Out: terminal(os.Stdout), Err: terminal(os.Stderr),
			Width: func() int {
				width, _, err := term.GetSize(int(os.Stderr.Fd()))
				if err != nil {
					return 80
				}
				return width
			},
			ReadPassword: func() (string, error) {
				password, err := term.ReadPassword(int(os.Stdin.Fd()))
				return string(password), err
			},
			Raw: raw, Sizes: sizes,
		},
	}
}

// Flags are those that every command has.
type Flags struct {
	Context string
	Project string
	Output  string
}

// Session is a command's.
type Session struct {
	Parts
	Flags Flags

	mu      sync.Mutex // keeps what is below
	context *config.Context
	client  client.WithWatch
	token   config.Token
	input   *bufio.Reader
}

// New returns a session.
func New(parts Parts) *Session { return &Session{Parts: parts} }

// Printer writes data to standard output, in the format asked for.
func (s *Session) Printer() *output.Printer {
	return &output.Printer{Out: s.Out, Format: s.Flags.Output, Color: s.Terminal.Out && s.colors()}
}

// Progress is where progress is shown: on standard error.
func (s *Session) Progress() progress.Terminal {
	return progress.Terminal{
		Out: s.Err, Live: s.Terminal.Err && s.Env("TERM") != "dumb", Color: s.colors(), Width: s.Terminal.Width, Now: s.Now,
	}
}

// colors heeds https://no-color.org.
func (s *Session) colors() bool { return s.Env("NO_COLOR") == "" && s.Env("TERM") != "dumb" }

// Note tells a person something that is no data.
func (s *Session) Note(format string, values ...any) { fmt.Fprintf(s.Err, format+"\n", values...) }

// Confirm asks a person whether to go on. Where there is none, the answer is yes: scripts have said what they want.
func (s *Session) Confirm(ctx context.Context, question string) (bool, error) {
	if !s.Terminal.In || !s.Terminal.Err {
		return true, nil
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	answer, err := s.readLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// Ask asks a person for a line of text.
func (s *Session) Ask(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(s.Err, "%s: ", question)
	line, err := s.readLine(ctx)
	return strings.TrimSpace(line), err
}

// AskPassword asks a person for a password, which is not shown.
func (s *Session) AskPassword(question string) (string, error) {
	fmt.Fprintf(s.Err, "%s: ", question)
	password, err := s.Terminal.ReadPassword()
	fmt.Fprintln(s.Err)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return password, nil
}

// ReadSecret reads a secret of one line from standard input.
func (s *Session) ReadSecret(ctx context.Context) (string, error) {
	line, err := s.readLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// readLine reads a line, but does not outlive the command: a read cannot be interrupted.
func (s *Session) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	if s.input == nil {
		s.input = bufio.NewReader(s.In)
	}
	read := make(chan result, 1)
	go func() {
		line, err := s.input.ReadString('\n')
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
