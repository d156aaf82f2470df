package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxStdin bounds a command's input; larger things are files.
const maxStdin = 256 << 10

// Command is a program to run on a host, as root.
type Command struct {
	// Step that it is a part of, for errors, such as join-workers.
	Step string
	// Args are the program and its arguments. They reach it exactly as they are. Others on the host can see them.
	Args []string
	// Env is added to a small environment, and Stdin is its input. Both stay secret.
	Env   map[string]string
	Stdin []byte
	// Dir to run in; / where it is empty.
	Dir string
	// Timeout ends it; the pool's where it is zero.
	Timeout time.Duration
	// Output is told each line as it comes, in order; lines of the two streams may overtake each other.
	Output func(Line)
}

// Line is a line that a command wrote, without its end.
type Line struct {
	Text   string
	Stderr bool
}

// Result is what a command wrote.
type Result struct {
	// Stdout and Stderr are everything, up to 4 MiB; then Truncated is set.
	Stdout, Stderr string
	Truncated      bool
}

func (c Command) validate() error {
	switch {
	case len(c.Args) == 0 || c.Args[0] == "":
		return errors.New("run command: there is none")
	case len(c.Stdin) > maxStdin:
		return fmt.Errorf("run %s: its input has %d bytes, and may have %d: lay a file instead", c.Args[0], len(c.Stdin), maxStdin)
	}
	for _, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("run %s: an argument has a zero byte in it", c.Args[0])
		}
	}
	return nil
}

// Run runs a command once. Connecting may take several attempts; but as soon as the host was told to run the command,
// a connection that breaks is an error (ErrLost), because the command may have run. A command that fails is an
// *ExitError. When ctx ends, the command is ended.
func (c *Client) Run(ctx context.Context, command Command) (Result, error) {
	return c.run(ctx, command, 1)
}

// RunIdempotent runs a command that may be run again: where the connection breaks, what is left of it on the host is
// ended, and it is run anew.
func (c *Client) RunIdempotent(ctx context.Context, command Command) (Result, error) {
	return c.run(ctx, command, c.pool.config.Attempts)
}

func (c *Client) run(ctx context.Context, command Command, attempts int) (Result, error) {
	if err := command.validate(); err != nil {
		return Result{}, err
	}
	outer := ctx
	timeout := cmp.Or(command.Timeout, c.pool.config.CommandTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var result Result
	var err error
	for attempt := range attempts {
		if err = c.pause(ctx, attempt); err != nil {
			break
		}
		marker := rand.Text()
		result, err = c.runOnce(ctx, command, marker)
		if !errors.Is(err, ErrLost) || ctx.Err() != nil || attempt == attempts-1 {
			break
		}
		if problem := c.end(ctx, command.Step, marker); problem != nil {
			return result, errors.Join(err, problem)
		}
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		last := ""
		if lines := lastLines(result); len(lines) > 0 {
			last = "; its last words: " + strings.Join(lines, " | ")
		}
		return result, c.fail(command.Step, ErrTimeout, fmt.Errorf("%s did not end within %s and was ended%s", command.Args[0], timeout, last),
			"look at the host's load and log; the step can be tried again")
	}
	return result, err
}

// runOnce runs a command under supervision.
func (c *Client) runOnce(ctx context.Context, command Command, marker string) (Result, error) {
	env, err := assignments(command.Env)
	if err != nil {
		return Result{}, fmt.Errorf("run %s: %w", command.Args[0], err)
	}
	input, leash := io.Pipe()
	defer func() { _ = leash.Close() }()
	go func() {
		_, _ = fmt.Fprintf(leash, "%s%s\n%s\n%s\n", env, marker, base64.StdEncoding.EncodeToString(command.Stdin), marker)
	}()
	heard := newListener(marker, command.Output)
	defer heard.stop()
	words := shell(superviseScript, append([]string{marker, c.guard, c.token, command.Dir}, command.Args...)...)
	err = c.exec(ctx, command.Step, words, conversation{
		stdin: input, stdout: heard.stdout(), stderr: heard.stderr(), finished: heard.finished,
		hangUp: func() { _ = leash.Close() },
	})
	result := heard.result()
	if err != nil {
		return result, err
	}
	switch end := heard.end(); end {
	case "0":
		return result, nil
	case "guard":
		return result, c.fail(command.Step, ErrGuard, fmt.Errorf("%s is not what it was when the work began", c.guard), "the host was given to somebody else meanwhile")
	case "":
		return result, c.fail(command.Step, ErrLost, errors.New("the command's supervisor was ended"), "the host may be shutting down")
	default:
		code, err := strconv.Atoi(end)
		if err != nil {
			return result, fmt.Errorf("run %s: its exit code is %q", command.Args[0], end)
		}
		return result, c.fail(command.Step, &ExitError{Command: command.Args[0], Code: code, Lines: lastLines(result)}, nil, "")
	}
}

// end makes sure that a command whose connection was lost does not run any more.
func (c *Client) end(ctx context.Context, step, marker string) error {
	return c.script(ctx, step, endScript, nil, strings.NewReader(marker+"\n"), io.Discard)
}

// lastLines are the last that a command wrote, rather what it complained about.
func lastLines(result Result) []string {
	const most, longest = 5, 400
	text := strings.TrimSpace(result.Stderr)
	if text == "" {
		text = strings.TrimSpace(result.Stdout)
	}
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-most):]
	for i, line := range lines {
		if len(line) > longest {
			lines[i] = line[:longest] + "…"
		}
	}
	return lines
}

//go:embed script/supervise.sh
var superviseScript string

//go:embed script/end.sh
var endScript string
