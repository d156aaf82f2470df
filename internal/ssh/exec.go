package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

// exec runs words on the host as root, on whatever connection there is. It repeats what was not begun.
func (c *Client) exec(ctx context.Context, step string, words []string, talk conversation) error {
	for attempt := range c.pool.config.Attempts {
		if err := c.pause(ctx, attempt); err != nil {
			return err
		}
		conn, err := c.connectAnyhow(ctx, step)
		if err != nil {
			return err
		}
		if err := c.becomeRoot(ctx, step, conn); err != nil {
			if errors.Is(err, ErrLost) {
				continue
			}
			return err
		}
		line := quote(words...)
		if c.host.user() != "root" {
			line = quote("sudo", "-n", "--") + " " + line
		}
		err = conn.exec(ctx, line, talk)
		if notBegun := (errNotBegun{}); errors.As(err, &notBegun) && ctx.Err() == nil {
			conn.close(notBegun.error) // not err: others, who have begun, are told this cause as well
			continue
		}
		return c.explain(ctx, step, words[0], err)
	}
	return c.fail(step, ErrLost, errors.New("the connection breaks again and again before anything is run"), "check the network to the host")
}

// explain says what a failed session means.
func (c *Client) explain(ctx context.Context, step, command string, err error) error {
	exit, ended := errors.AsType[*ssh.ExitError](err)
	full, isFull := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isFull:
		return c.fail(step, ErrTimeout, fmt.Errorf("its SSH server has had no room for a further command for %s: %s", roomPatience, full.Message),
			"raise MaxSessions in its sshd_config (10 is the usual), or end what others run there")
	case ended:
		return c.fail(step, &ExitError{Command: command, Code: exit.ExitStatus()}, nil, "")
	case lost(err):
		return c.fail(step, ErrLost, err, "check the network to the host, and whether it restarted; the step can be tried again")
	default:
		return fmt.Errorf("host %s: %s: %w", c.host, step, err)
	}
}

// becomeRoot makes sure, once for each connection, that commands can be run as root.
func (c *Client) becomeRoot(ctx context.Context, step string, conn *connection) error {
	var done bool
	select {
	case done = <-conn.sudo:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { conn.sudo <- done }()
	if done {
		return nil
	}
	var complaint bytes.Buffer
	err := conn.exec(ctx, "LC_ALL=C sudo -n -- true", conversation{stdout: io.Discard, stderr: &complaint})
	exit, refused := errors.AsType[*ssh.ExitError](err)
	switch text := strings.TrimSpace(complaint.String()); {
	case err == nil:
		done = true
		return nil
	case refused && exit.ExitStatus() == 127:
		return c.fail(step, ErrSudo, fmt.Errorf("user %s is not root, and sudo is missing", c.host.user()), "install sudo, or let root log in and set the host's user to root")
	case refused:
		return c.fail(step, ErrSudo, errors.New(text), "allow it without a password: echo '%[1]s ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/%[1]s", c.host.user())
	case lost(err):
		return c.fail(step, ErrLost, err, "check the network to the host")
	default:
		return c.explain(ctx, step, "sudo", err)
	}
}

// script runs a script of this package. Its complaints become part of the error.
func (c *Client) script(ctx context.Context, step, script string, args []string, stdin io.Reader, stdout io.Writer) error {
	complaint := &limited{most: 4 << 10}
	err := c.exec(ctx, step, shell(script, args...), conversation{stdin: stdin, stdout: stdout, stderr: complaint})
	if exit, ok := errors.AsType[*ExitError](err); ok {
		exit.Lines = lastLines(Result{Stderr: complaint.String()})
	}
	return err
}

// limited keeps the beginning of what is written to it.
type limited struct {
	bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := l.most - l.Len()
	if len(p) > room {
		l.over = true
	}
	_, _ = l.Buffer.Write(p[:min(room, len(p))])
	return len(p), nil
}

// comment is a line that only readers of a script need, not those of a host's list of processes.
var comment = regexp.MustCompile(`(?m)^\s*#.*\n`)

// shell is a script of this package, with arguments, as words.
func shell(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", comment.ReplaceAllString(script, ""), "sh"}, args...)
}
