package remote

import (
	"context"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"
)

// Session is a person's: they type, and see what comes, for as long as they like.
type Session struct {
	// Step is what it is for, for errors.
	Step string
	// Args are a program and its arguments; root's shell where there are none.
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	// Stderr is not used where there is a terminal: that has one stream.
	Stderr io.Writer
	// Terminal is the kind of the person's, such as xterm; empty where it is none. Sizes are told as they change.
	Terminal string
	Sizes    <-chan Size
}

// Size of a terminal, in characters.
type Size struct{ Width, Height int }

// defaultSize is a terminal's until it tells another one.
var defaultSize = Size{Width: 80, Height: 24}

// Attach runs a session to its end, or until ctx ends. A program that fails is an *ExitError.
func (c *Client) Attach(ctx context.Context, s Session) error {
	conn, err := c.connectAnyhow(ctx, s.Step)
	if err != nil {
		return err
	}
	if err := c.becomeRoot(ctx, s.Step, conn); err != nil {
		return err
	}
	// It takes none of the places that commands wait for: people take their time.
	conn.hold()
	defer conn.release()
	err = conn.attach(ctx, c.commandLine(s), s)
	return c.explain(ctx, s.Step, nameOf(s), err)
}

// commandLine is what the host is told to run; empty for the user's own shell.
func (c *Client) commandLine(s Session) string {
	root := c.host.user() == "root"
	switch {
	case root && len(s.Args) == 0:
		return ""
	case root:
		return quote(s.Args...)
	case len(s.Args) == 0:
		return quote("sudo", "-n", "-i")
	default:
		return quote("sudo", "-n", "--") + " " + quote(s.Args...)
	}
}

func nameOf(s Session) string {
	if len(s.Args) == 0 {
		return "shell"
	}
	return s.Args[0]
}

func (c *connection) attach(ctx context.Context, line string, s Session) error {
	session, err := c.client.NewSession()
	if err != nil {
		return c.why(err)
	}
	defer func() { go func() { _ = session.Close() }() }() // a goodbye takes a peer that listens
	session.Stdin, session.Stdout, session.Stderr = s.Stdin, s.Stdout, s.Stderr
	if s.Terminal != "" {
		modes := ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: 38400, ssh.TTY_OP_OSPEED: 38400}
		if err := session.RequestPty(s.Terminal, defaultSize.Height, defaultSize.Width, modes); err != nil {
			return c.why(err)
		}
	}
	if line == "" {
		err = session.Shell()
	} else {
		err = session.Start(line)
	}
	if err != nil {
		return c.why(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	for {
		select {
		case err := <-ended:
			return c.judge(err)
		case size, ok := <-s.Sizes:
			if !ok {
				s.Sizes = nil
				continue
			}
			if err := session.WindowChange(size.Height, size.Width); err != nil && !errors.Is(err, io.EOF) {
				return c.why(err)
			}
		case <-c.over:
			return c.why(io.ErrUnexpectedEOF)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
