package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Spec describes a child process.
type Spec struct {
	Name string // its own name, and argv[0]: multi-call binaries look at it
	Path string // the binary
	Args []string
	Env  []string // besides the launcher's own environment

	LogDir string // <Name>.log is written here, with rotation
	RunDir string // <Name>.pid is written here

	// Prepare is called before the first start, Probe until it succeeds once. Either may be nil.
	Prepare func(ctx context.Context) error
	Probe   func(ctx context.Context) error
	// Grace is how long the process may take to end by itself after SIGTERM; 10 s when zero.
	Grace time.Duration
}

// startAttempts is how often a process may die before it was ever ready: one that cannot start is reported, one that
// had been ready is restarted for ever.
const startAttempts = 5

// Process is a child process as a Component.
type Process struct {
	spec Spec
	log  *slog.Logger

	logFile *lumberjack.Logger
	tail    *tail

	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool

	stop   chan struct{} // closed by Stop
	done   chan struct{} // closed when the supervisor has ended
	failed chan error    // the process cannot start
	ready  chan struct{} // closed when the probe has succeeded
}

// NewProcess returns a process that is not running yet.
func NewProcess(log *slog.Logger, spec Spec) *Process {
	if spec.Grace == 0 {
		spec.Grace = 10 * time.Second
	}
	return &Process{
		spec:   spec,
		log:    log.With("component", spec.Name),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
		failed: make(chan error, 1),
		ready:  make(chan struct{}),
		tail:   &tail{},
	}
}

// Name implements Component.
func (p *Process) Name() string { return p.spec.Name }

// Init implements Component.
func (p *Process) Init(ctx context.Context) error {
	if p.spec.Prepare == nil {
		return nil
	}
	return p.spec.Prepare(ctx)
}

// Start implements Component.
func (p *Process) Start(context.Context) error {
	p.logFile = &lumberjack.Logger{
		Filename: filepath.Join(p.spec.LogDir, p.spec.Name+".log"),
		MaxSize:  50, MaxBackups: 5, MaxAge: 30, Compress: true,
	}
	go p.supervise()
	return nil
}

// supervise runs the process again and again until Stop. It holds its thread: Linux sends the parent-death signal
// when the thread that forked the child ends, not when the process does.
func (p *Process) supervise() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	delays := newBackoff()
	for attempt := 1; ; attempt++ {
		began := time.Now()
		err := p.runOnce()
		select {
		case <-p.stop:
			return
		default:
		}
		if !p.wasReady() && attempt >= startAttempts {
			p.failed <- fmt.Errorf("%w (tried %d times); its last words, from %s:\n%s",
				err, attempt, p.logFile.Filename, p.tail)
			return
		}
		delay := delays.next(time.Since(began))
		p.log.Warn("component ended; starting it again", "error", err, "delay", delay)
		select {
		case <-p.stop:
			return
		case <-time.After(delay):
		}
	}
}

func (p *Process) runOnce() error {
	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Args[0] = p.spec.Name
	cmd.Env = append(os.Environ(), p.spec.Env...)
	out := io.MultiWriter(p.logFile, p.tail)
	cmd.Stdout, cmd.Stderr = out, out
	// A grandchild may keep the pipe open; do not wait for it once the child itself is gone.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // nothing is left when the launcher is killed
		Setpgid:   true,            // Ctrl-C reaches the launcher, which stops its parts in order
	}
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return nil
	}
	err := cmd.Start()
	if err == nil {
		p.cmd = cmd
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if err := writePID(p.pidFile(), cmd.Process.Pid); err != nil {
		p.log.Warn("cannot record the process id", "error", err)
	}
	err = cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		err = errors.New("exited without an error")
	}
	return err
}

func (p *Process) pidFile() string { return filepath.Join(p.spec.RunDir, p.spec.Name+".pid") }

func (p *Process) wasReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// Ready implements Component.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	probed := make(chan error, 1)
	go func() { probed <- Poll(ctx, p.probe) }()
	select {
	case err := <-p.failed:
		return err
	case err := <-probed:
		if err != nil {
			return fmt.Errorf("%w; its last words, from %s:\n%s", err, p.logFile.Filename, p.tail)
		}
		close(p.ready)
		return nil
	}
}

func (p *Process) probe(ctx context.Context) error {
	p.mu.Lock()
	running := p.cmd != nil
	p.mu.Unlock()
	if !running {
		// Without this a probe could be answered by a stranger on the same port.
		return errors.New("not running")
	}
	if p.spec.Probe == nil {
		return nil
	}
	return p.spec.Probe(ctx)
}

// Stop implements Component: SIGTERM, and SIGKILL when the grace period is over.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	if p.logFile == nil || p.stopped {
		p.mu.Unlock()
		return nil
	}
	p.stopped = true
	close(p.stop)
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	}
	p.mu.Unlock()
	grace := time.NewTimer(p.spec.Grace)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		p.kill("it did not end in time")
	case <-ctx.Done():
		p.kill("the launcher must end now")
	}
	<-p.done
	_ = os.Remove(p.pidFile())
	return p.logFile.Close()
}

func (p *Process) kill(why string) {
	p.log.Warn("killing component", "why", why)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
	}
}
