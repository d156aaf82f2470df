package session

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// raw makes the process's terminal hand over every key.
func raw() (func(), error) {
	input := int(os.Stdin.Fd())
	before, err := term.MakeRaw(input)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(input, before) }, nil
}

// sizes are those of the process's terminal.
func sizes(ctx context.Context) <-chan Size {
	told := make(chan Size, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH // what it is now
	go func() {
		defer close(told)
		defer signal.Stop(changed)
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			width, height, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				continue
			}
			select {
			case told <- Size{Width: width, Height: height}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return told
}
