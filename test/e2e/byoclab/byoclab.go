// Package byoclab is what the scenarios of clusters in clouds share: the real OpenTofu and providers of the release, the
// platform's state backend, and for each cloud its stub with the account, network and cluster that live there.
package byoclab

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

// Secret is a credential that may be nowhere but in tofu's environment.
const Secret = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

// Lab is a driver, and a backend for states.
type Lab struct {
	Driver  *terraform.Driver
	Backend *state.Backend
	Log     *Log
	Tofu    string // the program

	release *release.Cloud
	tokens  *state.Tokens
	server  *httptest.Server
	root    string
	states  string
	spoil   func(*http.Request) bool
	mu      sync.Mutex
}

// Log keeps what is logged.
type Log struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *Log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(data)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// New opens the release's part for clouds, and an empty backend.
func New(t *testing.T, lockTimeout time.Duration) *Lab {
	t.Helper()
	l := &Lab{Log: new(Log), root: t.TempDir(), states: t.TempDir()}
	log := slog.New(slog.NewTextHandler(l.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir, err := release.Locate("")
	must(t, err)
	l.release, err = release.OpenCloud(dir)
	must(t, err)
	l.Tofu, err = l.release.Tofu()
	must(t, err)
	store, err := state.NewDirectory(l.states)
	must(t, err)
	keys, err := state.NewKeyring(bytes.Repeat([]byte{7}, state.KeySize))
	must(t, err)
	l.Backend, err = state.New(state.Config{Store: store, Keys: keys, Now: time.Now})
	must(t, err)
	l.tokens, err = state.NewTokens(bytes.Repeat([]byte{9}, state.KeySize), time.Now)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", l.Log)
		}
	})
	handler := state.NewHandler(l.Backend, l.tokens, log)
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		spoil := l.spoil
		l.mu.Unlock()
		if spoil != nil && spoil(r) {
			http.Error(w, "spoilt", http.StatusNotImplemented) // which tofu does not try again
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(l.server.Close)
	l.drive(t, lockTimeout)
	return l
}

// drive makes the lab's driver.
func (l *Lab) drive(t *testing.T, lockTimeout time.Duration) {
	t.Helper()
	var err error
	l.Driver, err = terraform.New(terraform.Config{
		Binary: l.Tofu, Mirror: l.release.Mirror(), Root: l.root, LockTimeout: lockTimeout, Grace: time.Minute,
		Log: slog.New(slog.NewTextHandler(l.Log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	must(t, err)
}

// Elsewhere is another place that the same stacks can be worked on from, as another deployer has it: with workspaces of
// its own, and the same states.
func (c Cloud) Elsewhere(t *testing.T) Cloud {
	t.Helper()
	lab := c.Lab
	c.Lab = &Lab{Backend: lab.Backend, Log: lab.Log, Tofu: lab.Tofu, release: lab.release, tokens: lab.tokens, server: lab.server, root: t.TempDir(), states: lab.states}
	c.Lab.drive(t, time.Second)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Spoil makes the backend fail for some requests; nil for none.
func (l *Lab) Spoil(spoil func(*http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spoil = spoil
}

// HTTPBackend is where a stack's state is.
func (l *Lab) HTTPBackend(stack string) terraform.Backend {
	return terraform.HTTPBackend(l.server.URL+"/"+stack, state.TokenUser, l.tokens.Issue(stack, time.Hour))
}

// Cloud is where a scenario's stacks are: a stub, or the real one.
type Cloud struct {
	Lab         *Lab
	Name        string // of the configurations
	Provider    string
	Environment map[string]string
}

// Open prepares a stack of a cloud, in the infra version that is asked for.
func (c Cloud) Open(t *testing.T, stack, version string, kind configuration.Kind, variables any) *terraform.Workspace {
	t.Helper()
	files, err := configuration.Files(c.Name, version, kind)
	must(t, err)
	lockPath, err := c.Lab.release.Lock(c.Provider)
	must(t, err)
	lock, err := os.ReadFile(lockPath)
	must(t, err)
	workspace, err := c.Lab.Driver.Open(terraform.Stack{
		Name: stack, Variables: variables, Environment: c.Environment,
		Configuration: terraform.Configuration{Files: files, Lock: lock}, Backend: c.Lab.HTTPBackend(stack),
	})
	must(t, err)
	must(t, workspace.Init(t.Context()))
	return workspace
}

// Plan plans, and fails the test if that fails.
func Plan(t *testing.T, w *terraform.Workspace, options terraform.PlanOptions) *terraform.Plan {
	t.Helper()
	plan, err := w.Plan(t.Context(), options)
	must(t, err)
	return plan
}

// Apply plans, checks the plan and applies it; then nothing is left to do.
func Apply(t *testing.T, w *terraform.Workspace, policy terraform.Policy, options terraform.PlanOptions) *terraform.Plan {
	t.Helper()
	plan := Plan(t, w, options)
	must(t, policy.Check(plan))
	began := time.Now()
	last := ""
	err := w.Apply(t.Context(), plan, func(e terraform.Event) { last = e.String() })
	must(t, err)
	t.Logf("%d changes in %.1f s, the last: %s", len(plan.Changes), time.Since(began).Seconds(), last)
	if again := Plan(t, w, options); len(again.Changes) > 0 {
		t.Errorf("there is more to do:\n%s", again)
	}
	return plan
}

// Processes are those that work in the lab's workspaces: the engine first, and then what it has begun. So they are killed
// too: an engine that outlives its providers would come to an orderly end.
func (l *Lab) Processes(t *testing.T) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	var engines, pids []int
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.root) {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			must(t, err)
			if program, err := os.Readlink(filepath.Join(filepath.Dir(link), "exe")); err == nil && program == l.Tofu {
				engines = append(engines, pid)
			} else {
				pids = append(pids, pid)
			}
		}
	}
	return append(engines, pids...)
}

// Killed carries out a plan and kills the engine with all that it has begun, once so many resources were made or
// destroyed; then it takes away the lock, as a person would.
func (c Cloud) Killed(t *testing.T, w *terraform.Workspace, stack string, options terraform.PlanOptions, after int) {
	t.Helper()
	plan := Plan(t, w, options)
	done, enough := make(chan error, 1), make(chan struct{})
	var once sync.Once
	go func() {
		done <- w.Apply(context.WithoutCancel(t.Context()), plan, func(e terraform.Event) {
			if e.Done >= after {
				once.Do(func() { close(enough) })
			}
		})
	}()
	select {
	case <-enough:
	case err := <-done:
		t.Fatalf("apply ended before it was killed: %v", err)
	}
	for _, pid := range c.Lab.Processes(t) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	if err := <-done; err == nil {
		t.Fatal("a killed operation succeeded")
	}
	record, err := c.Lab.Backend.Describe(t.Context(), stack)
	must(t, err)
	if record.Lock == nil {
		t.Fatal("a killed operation gave its lock back")
	}
	must(t, w.ForceUnlock(t.Context(), record.Lock.ID))
}

// Certificate writes the certificate of a TLS server to a file, for those who shall trust it.
func Certificate(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	return file
}
