// Package terminal lets a person work on an instance, from wherever they are: the platform logs in to it, and the command
// line shows what comes, and sends what is typed.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/terminal/wire"
)

// Open runs a command on an instance of the project, or a shell where there is none. Where a person sits before it, and
// wants a shell or asks for it, they get a terminal.
func Open(ctx context.Context, s *session.Session, instance string, command []string, tty bool) error {
	project, err := s.Project()
	if err != nil {
		return err
	}
	service, err := s.IAM()
	if err != nil {
		return err
	}
	token, err := s.Token(ctx)
	if err != nil {
		return err
	}
	// A refusal of the streams themselves says little.
	if err := service.Ask(ctx, token.AccessToken, wire.Path(project, instance)); err != nil {
		return fmt.Errorf("open a terminal on instance %s: %w", instance, err)
	}
	tty = (tty || len(command) == 0) && s.Terminal.In && s.Terminal.Out
	query := url.Values{wire.Command: command, wire.Stdin: {"1"}, wire.Stdout: {"1"}}
	options := remotecommand.StreamOptions{Stdin: s.In, Stdout: s.Out, Tty: tty}
	if tty {
		query.Set(wire.TTY, "1")
		query.Set(wire.Term, s.Env("TERM"))
	} else {
		query.Set(wire.Stderr, "1")
		options.Stderr = s.Err
	}
	config := service.Config(token.AccessToken)
	target, err := url.Parse(config.Host + wire.Path(project, instance) + "?" + query.Encode())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", target)
	if err != nil {
		return err
	}
	return stream(ctx, s, executor, options)
}

// stream connects the streams until the command ends.
func stream(ctx context.Context, s *session.Session, executor remotecommand.Executor, options remotecommand.StreamOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if options.Tty {
		restore, err := s.Terminal.Raw()
		if err != nil {
			return fmt.Errorf("prepare the terminal: %w", err)
		}
		defer restore()
		options.TerminalSizeQueue = queue(s.Terminal.Sizes(ctx))
	}
	err := executor.StreamWithContext(ctx, options)
	if ended, ok := errors.AsType[exec.CodeExitError](err); ok {
		return exit.With(exit.Code(ended.Code), "", fmt.Errorf("the command on the instance ended with exit code %d", ended.Code))
	}
	return err
}

// queue are the sizes of a terminal.
type queue <-chan session.Size

// Next implements remotecommand.TerminalSizeQueue.
func (q queue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(size.Width), Height: uint16(size.Height)}
}
