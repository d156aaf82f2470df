//go:build e2e

// Package byoctofu runs the real OpenTofu through the platform's driver, with its state in the platform's backend and
// no cloud at all: what is made is made of nothing. It shows what goes wrong in operations: two at once, one that is
// cancelled, one that is killed, and a backend that fails.
package byoctofu

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

const configuration = `
variable "count_of" { type = number }
variable "seconds" { type = number }
resource "terraform_data" "thing" {
  count = var.count_of
  input = "thing ${count.index}"
  provisioner "local-exec" {
    command = "test -n \"$CLOUD_SECRET\" && sleep ${var.seconds}"
  }
}
output "things" { value = terraform_data.thing[*].output }
output "password" {
  value     = "sealed-in-the-state"
  sensitive = true
}
`

type variables struct {
	Count   int `json:"count_of"`
	Seconds int `json:"seconds"`
}

// bench is a lab with one stack.
type bench struct {
	*byoclab.Lab
	t           *testing.T
	backend     terraform.Backend
	environment map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	lab := byoclab.New(t, time.Second)
	return &bench{lab, t, lab.HTTPBackend("stack"), map[string]string{"CLOUD_SECRET": byoclab.Secret}}
}

// open prepares the stack, in a workspace by its own name: as different deployers would have.
func (b *bench) open(name string, v variables) *terraform.Workspace {
	b.t.Helper()
	workspace, err := b.Driver.Open(terraform.Stack{
		Name: name, Variables: v, Environment: b.environment,
		Configuration: terraform.Configuration{Files: map[string][]byte{"main.tf": []byte(configuration)}}, Backend: b.backend,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := workspace.Init(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return workspace
}

func (b *bench) plan(w *terraform.Workspace, options terraform.PlanOptions) *terraform.Plan {
	b.t.Helper()
	plan, err := w.Plan(b.t.Context(), options)
	if err != nil {
		b.t.Fatal(err)
	}
	return plan
}

func (b *bench) apply(w *terraform.Workspace, options terraform.PlanOptions) []string {
	b.t.Helper()
	var lines []string
	if err := w.Apply(b.t.Context(), b.plan(w, options), func(e terraform.Event) { lines = append(lines, e.String()) }); err != nil {
		b.t.Fatal(err)
	}
	return lines
}

func TestAStackLivesAndDies(t *testing.T) {
	b := newBench(t)
	w := b.open("one", variables{Count: 3})
	plan := b.plan(w, terraform.PlanOptions{})
	if plan.Count(terraform.EffectCreate) != 3 {
		t.Errorf("the plan is\n%s", plan)
	}
	if err := (terraform.Policy{}).Check(plan); err != nil {
		t.Error(err)
	}
	lines := b.apply(w, terraform.PlanOptions{})
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "3/3 terraform_data.thing[") || !strings.Contains(last, " created") {
		t.Errorf("progress was\n%s", strings.Join(lines, "\n"))
	}
	var outputs struct {
		Things   []string `json:"things"`
		Password string   `json:"password"`
	}
	if err := w.Output(t.Context(), &outputs); err != nil || len(outputs.Things) != 3 || outputs.Password == "" {
		t.Errorf("outputs are %v, %v", outputs, err)
	}
	if again := b.plan(w, terraform.PlanOptions{}); !again.Empty() {
		t.Errorf("a second plan is\n%s", again)
	}
	resources, err := w.State(t.Context())
	if err != nil || len(resources) != 3 || resources["terraform_data.thing[0]"] == "" {
		t.Errorf("the state has %v, %v", resources, err)
	}
	if err := w.Forget(t.Context(), "terraform_data.thing[2]"); err != nil {
		t.Error(err)
	}
	if err := w.Import(t.Context(), "terraform_data.thing[2]", resources["terraform_data.thing[2]"]); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w = b.open("two", variables{Count: 1}) // elsewhere, with the same state
	shrink := b.plan(w, terraform.PlanOptions{})
	if shrink.Count(terraform.EffectDestroy) != 2 {
		t.Errorf("the plan is\n%s", shrink)
	}
	b.apply(w, terraform.PlanOptions{Destroy: true})
	if resources, err := w.State(t.Context()); err != nil || len(resources) != 0 {
		t.Errorf("the state has %v, %v", resources, err)
	}
	if err := b.Backend.Delete(t.Context(), "stack"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	b.NothingTold(t, "sealed-in-the-state")
}

// background applies in the background and waits until it has begun to make things.
func (b *bench) background(ctx context.Context, w *terraform.Workspace) (done chan error) {
	b.t.Helper()
	plan := b.plan(w, terraform.PlanOptions{})
	done, began := make(chan error, 1), make(chan struct{}, 100)
	go func() { done <- w.Apply(ctx, plan, func(terraform.Event) { began <- struct{}{} }) }()
	select {
	case <-began:
	case err := <-done:
		b.t.Fatalf("apply ended before it began: %v", err)
	case <-time.After(time.Minute):
		b.t.Fatal("apply has not begun")
	}
	return done
}

func TestOneOperationAtATime(t *testing.T) {
	b := newBench(t)
	first, second := b.open("one", variables{Count: 1, Seconds: 5}), b.open("two", variables{Count: 1})
	done := b.background(t.Context(), first)
	_, err := second.Plan(t.Context(), terraform.PlanOptions{})
	var locked *terraform.LockError
	if !errors.As(err, &locked) || locked.ID == "" || locked.Who == "" || locked.Operation != "Apply" {
		t.Errorf("a second operation: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if plan := b.plan(second, terraform.PlanOptions{}); !plan.Empty() {
		t.Errorf("afterwards there is to do\n%s", plan)
	}
}

func TestACancelledOperationComesToAnEnd(t *testing.T) {
	b := newBench(t)
	w := b.open("one", variables{Count: 1, Seconds: 3})
	ctx, cancel := context.WithCancel(t.Context())
	done := b.background(ctx, w)
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Apply = %v", err)
	}
	if record, err := b.Backend.Describe(t.Context(), "stack"); err != nil || record.Lock != nil {
		t.Errorf("the lock is still held: %+v, %v", record, err)
	}
	b.apply(b.open("two", variables{Count: 1}), terraform.PlanOptions{})
}

func TestAKilledOperationIsUnlockedAndRepeated(t *testing.T) { newBench(t).killedAndRepeated(t) }

func (b *bench) killedAndRepeated(t *testing.T) {
	t.Helper()
	w := b.open("one", variables{Count: 2, Seconds: 30})
	done := b.background(t.Context(), w)
	pids := b.Processes(t)
	if len(pids) == 0 {
		t.Fatal("no engine is running")
	}
	for _, pid := range pids {
		arguments, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && bytes.Contains(arguments, []byte(byoclab.Secret)) {
			t.Errorf("arguments tell the secret: %q", arguments)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its parent
	}
	if err := <-done; err == nil {
		t.Error("a killed operation succeeded")
	}
	next := b.open("two", variables{Count: 2})
	_, err := next.Plan(t.Context(), terraform.PlanOptions{})
	var locked *terraform.LockError
	if host, _ := os.Hostname(); !errors.As(err, &locked) || !strings.HasSuffix(locked.Who, "@"+host) {
		t.Fatalf("Plan = %v", err)
	}
	if err := next.ForceUnlock(t.Context(), locked.ID); err != nil {
		t.Fatal(err)
	}
	b.apply(next, terraform.PlanOptions{})
	if resources, err := next.State(t.Context()); err != nil || len(resources) != 2 {
		t.Errorf("the state has %v, %v", resources, err)
	}
}

func TestAStateThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	b := newBench(t)
	w := b.open("one", variables{Count: 2})
	plan := b.plan(w, terraform.PlanOptions{})
	b.Spoil(func(r *http.Request) bool { return r.Method == http.MethodPost })
	if err := w.Apply(t.Context(), plan, nil); err == nil {
		t.Fatal("Apply succeeded without a backend")
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "is kept at") {
		t.Errorf("Close = %v", err)
	}
	b.Spoil(nil)
	w = b.open("one", variables{Count: 2})
	if plan := b.plan(w, terraform.PlanOptions{}); !plan.Empty() {
		t.Errorf("what was made is forgotten:\n%s", plan)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestMistakesAreToldOnce(t *testing.T) {
	b := newBench(t)
	for want, files := range map[string]string{
		"Unsupported argument": `resource "terraform_data" "a" { nosuch = 1 }`,
		"hashicorp/nosuch":     `terraform { required_providers { nosuch = { source = "hashicorp/nosuch" } } }`,
		"CLOUD_SECRET":         `resource "terraform_data" "a" { provisioner "local-exec" { command = "echo CLOUD_SECRET is $CLOUD_SECRET >&2; false" } }`,
	} {
		w, err := b.Driver.Open(terraform.Stack{
			Name: "mistake", Environment: map[string]string{"CLOUD_SECRET": byoclab.Secret},
			Configuration: terraform.Configuration{Files: map[string][]byte{"main.tf": []byte(files)}},
			Backend:       terraform.LocalBackend("terraform.tfstate"),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Init(t.Context())
		var plan *terraform.Plan
		if err == nil {
			plan, err = w.Plan(t.Context(), terraform.PlanOptions{})
		}
		if err == nil {
			err = w.Apply(t.Context(), plan, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), byoclab.Secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", want, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestConfigurationsAreFormatted(t *testing.T) {
	b := newBench(t)
	command := exec.CommandContext(t.Context(), b.Tofu, "fmt", "-check", "-diff", "-recursive", "../../../terraform")
	command.Env = []string{"TF_CLI_CONFIG_FILE=/dev/null"}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("run `tofu fmt -recursive terraform`: %v\n%s", err, out)
	}
}
