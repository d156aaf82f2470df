package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// overAfter is how long sessions have to notice the end of their connection.
const overAfter = time.Second

// maxSessions is how many commands run over one connection at once. Servers allow ten, unless told otherwise.
const maxSessions = 8

// A server that has no room for a further session is asked again: it counts those that have ended until it has buried
// them, and it may allow fewer than we use at once.
const (
	roomPause    = 50 * time.Millisecond
	roomPatience = 30 * time.Second
)

// witness knows that nothing more is to be read from a connection before anybody else does.
type witness struct {
	net.Conn
	broken atomic.Bool
}

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.broken.Store(true)
	}
	return n, err
}

// connection is a connection to a host that is logged in.
type connection struct {
	client  *ssh.Client
	raw     *witness
	host    Host
	letGo   func() // of the way to the host
	ended   chan struct{}
	over    chan struct{} // is closed a while after ended, when everybody has had the chance to notice by themselves
	tickets chan struct{}
	sudo    chan bool // holds whether root was become already

	mu    sync.Mutex
	cause error // why it ended
	users int
	used  time.Time
}

func newConnection(client *ssh.Client, raw *witness, host Host, letGo func()) *connection {
	c := &connection{
		client: client, raw: raw, host: host, letGo: letGo, used: time.Now(),
		ended: make(chan struct{}), over: make(chan struct{}), tickets: make(chan struct{}, maxSessions), sudo: make(chan bool, 1),
	}
	c.sudo <- host.user() == "root"
	return c
}

func (c *connection) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// hold keeps the connection from being closed as idle, until release.
func (c *connection) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	c.used = time.Now()
}

func (c *connection) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users > 0 {
		return 0
	}
	return time.Since(c.used)
}

// close ends the connection, and all that uses it.
func (c *connection) close(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	// Not the client's Close, which says goodbye, and waits for ever where nobody listens.
	_ = c.raw.Close()
}

// why is the reason for the end of the connection.
func (c *connection) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}

// watch asks the host now and then whether it is there, and ends a connection that is dead or of no use.
func (c *connection) watch(interval, patience time.Duration) {
	go func() {
		err := c.client.Wait()
		c.close(err)
		c.letGo()
		close(c.ended)
		time.AfterFunc(overAfter, func() { close(c.over) })
	}()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		if c.idle() > patience {
			c.close(errClosed)
			return
		}
		silence := time.AfterFunc(interval, func() { c.close(errSilent) })
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		silence.Stop()
		if err != nil {
			c.close(err)
			return
		}
	}
}

// conversation is what a command line reads and writes.
type conversation struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// finished, where it is not nil, tells that the command has ended, even if something that it left behind keeps its
	// streams open.
	finished <-chan struct{}
	// hangUp, where it is not nil, makes the command end, which is then waited for.
	hangUp func()
}

// errNotBegun marks a failure before the host was told to run anything.
type errNotBegun struct{ error }

func (e errNotBegun) Unwrap() error { return e.error }

// open opens a session, when the server has room for one.
func (c *connection) open(ctx context.Context) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	for {
		session, err := c.client.NewSession()
		if err == nil {
			return session, nil
		}
		if _, full := errors.AsType[*ssh.OpenChannelError](err); !full {
			return nil, errNotBegun{c.why(err)}
		}
		select {
		case <-time.After(roomPause):
		case <-c.ended:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// begin opens a session and starts a command line in it. An errNotBegun is safe to repeat elsewhere.
func (c *connection) begin(ctx context.Context, line string, s conversation) (*ssh.Session, error) {
	type outcome struct {
		session *ssh.Session
		err     error
	}
	var told atomic.Bool // the host was told to run it, or is just being told
	done := make(chan outcome, 1)
	go func() {
		session, err := c.open(ctx)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		session.Stdin, session.Stdout, session.Stderr = s.stdin, s.stdout, s.stderr
		told.Store(true)
		if err := session.Start(line); err != nil {
			done <- outcome{err: c.why(err)}
			return
		}
		done <- outcome{session: session}
	}()
	select {
	case o := <-done:
		return o.session, o.err
	case <-c.over:
		// A session that is asked for in the moment in which the connection ends is never answered.
		if told.Load() {
			return nil, c.why(io.ErrUnexpectedEOF)
		}
		return nil, errNotBegun{c.why(io.ErrUnexpectedEOF)}
	case <-ctx.Done():
		go func() {
			select {
			case o := <-done:
				if o.session != nil {
					_ = o.session.Close()
				}
			case <-c.over:
			}
		}()
		return nil, ctx.Err()
	}
}

// exec runs a command line to its end. When the context ends it hangs up, and returns when the command has ended, or
// after a while.
func (c *connection) exec(ctx context.Context, line string, s conversation) error {
	select {
	case c.tickets <- struct{}{}:
	case <-ctx.Done():
		return errNotBegun{ctx.Err()}
	}
	c.hold()
	defer func() { c.release(); <-c.tickets }()
	session, err := c.begin(ctx, line, s)
	if err != nil {
		return err
	}
	// Saying goodbye takes a peer that listens, so nobody waits for it.
	defer func() { go func() { _ = session.Close() }() }()
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err := <-ended:
		return c.judge(err)
	case <-s.finished:
		return nil
	case <-c.over:
		return c.why(io.ErrUnexpectedEOF)
	case <-ctx.Done():
	}
	if s.hangUp == nil {
		return ctx.Err() // its input ends with its session, and it with its input
	}
	s.hangUp()
	grace := time.NewTimer(hangUpGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-s.finished:
	case <-c.ended:
	case <-grace.C:
	}
	return ctx.Err()
}

// hangUpGrace is how long a command has to end: longer than its supervisor gives it.
const hangUpGrace = 8 * time.Second

// judge says what the end of a session means.
func (c *connection) judge(err error) error {
	if err == nil && c.raw.broken.Load() {
		return c.why(io.ErrUnexpectedEOF) // its exit status has come, but what it printed may have been behind that
	}
	missing := (*ssh.ExitMissingError)(nil)
	if errors.As(err, &missing) {
		return c.why(io.ErrUnexpectedEOF) // a server says goodbye; a dead connection does not
	}
	if exit := (*ssh.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return c.why(err)
	}
	return err
}

// lost tells whether an error is about the connection.
func lost(err error) bool {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, errSilent, errClosed} {
		if errors.Is(err, cause) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	disconnect := err != nil && strings.HasPrefix(err.Error(), "ssh: disconnect")
	return disconnect
}
