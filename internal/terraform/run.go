package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
)

// LockError is an operation that another one stands in the way of.
type LockError struct {
	ID, Who, Operation, Created string
}

func (e *LockError) Error() string {
	return fmt.Sprintf("another operation holds the state's lock: %s by %s since %s (lock %s)", e.Operation, e.Who, e.Created, e.ID)
}

// OperationError is an operation that failed. It holds no secrets.
type OperationError struct {
	Stack, Operation string
	Diagnostics      []Diagnostic // errors only
	Message          string       // where there are no diagnostics
	cause            error
}

func (e *OperationError) Error() string {
	text := e.Message
	if len(e.Diagnostics) > 0 {
		lines := make([]string, 0, len(e.Diagnostics))
		for _, diagnostic := range e.Diagnostics {
			lines = append(lines, diagnostic.String())
		}
		text = strings.Join(lines, "; ")
	}
	return fmt.Sprintf("%s stack %s: %s", e.Operation, e.Stack, text)
}

// Unwrap tells a cancelled operation from one that failed.
func (e *OperationError) Unwrap() error { return e.cause }

// Init installs the providers and connects to the backend. It is needed once after Open.
func (w *Workspace) Init(ctx context.Context) error {
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "prepare", nil, err)
	}
	if err := engine.Init(ctx, tfexec.Upgrade(false), tfexec.Reconfigure(true)); err != nil {
		return w.fail(ctx, "prepare", nil, err)
	}
	if len(w.stack.Configuration.Lock) == 0 {
		return nil
	}
	after, err := os.ReadFile(filepath.Join(w.dir, lockFileName))
	if err != nil {
		return w.fail(ctx, "prepare", nil, err)
	}
	if !bytes.Equal(after, w.stack.Configuration.Lock) {
		return w.fail(ctx, "prepare", nil, errors.New("the providers in the mirror are not those of the lock file"))
	}
	return nil
}

// PlanOptions say what to plan.
type PlanOptions struct {
	Destroy bool     // everything
	Replace []string // resources to make anew
	Refresh *bool    // ask the cloud what is there; true if nil
}

// Plan finds out what is to be done. The plan can be applied once, by this workspace.
func (w *Workspace) Plan(ctx context.Context, options PlanOptions) (*Plan, error) {
	if err := w.pushErrored(ctx); err != nil {
		return nil, err
	}
	engine, err := w.engine()
	if err != nil {
		return nil, w.fail(ctx, "plan", nil, err)
	}
	file := filepath.Join(w.dir, planFile)
	settings := []tfexec.PlanOption{tfexec.Out(file), tfexec.LockTimeout(w.driver.config.LockTimeout.String()), tfexec.Destroy(options.Destroy)}
	if options.Refresh != nil {
		settings = append(settings, tfexec.Refresh(*options.Refresh))
	}
	if w.driver.config.Parallelism > 0 {
		settings = append(settings, tfexec.Parallelism(w.driver.config.Parallelism))
	}
	for _, address := range options.Replace {
		settings = append(settings, tfexec.Replace(address))
	}
	output := &stream{redact: w.redact}
	if _, err := engine.PlanJSON(ctx, output, settings...); err != nil {
		return nil, w.fail(ctx, "plan", output.diagnostics, err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return nil, w.fail(ctx, "plan", nil, err)
	}
	reader, err := w.engine()
	if err != nil {
		return nil, w.fail(ctx, "plan", nil, err)
	}
	raw, err := reader.ShowPlanFile(ctx, file)
	if err != nil {
		return nil, w.fail(ctx, "plan", nil, err)
	}
	return readPlan(raw, file, options.Destroy), nil
}

// Apply does what the plan says, and nothing else: a plan that is out of date is refused by the engine. A context that
// ends asks the engine to come to an end, and waits for it.
func (w *Workspace) Apply(ctx context.Context, plan *Plan, progress func(Event)) error {
	if plan.file == "" {
		return w.fail(ctx, "apply", nil, errors.New("this plan was not made here"))
	}
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "apply", nil, err)
	}
	settings := []tfexec.ApplyOption{tfexec.DirOrPlan(plan.file), tfexec.LockTimeout(w.driver.config.LockTimeout.String())}
	if w.driver.config.Parallelism > 0 {
		settings = append(settings, tfexec.Parallelism(w.driver.config.Parallelism))
	}
	output := &stream{redact: w.redact, total: plan.operations(), progress: progress}
	err = engine.ApplyJSON(ctx, output, settings...)
	if removeErr := os.Remove(plan.file); removeErr != nil {
		w.driver.config.Log.WarnContext(ctx, "plan not removed", "stack", w.stack.Name, "error", removeErr)
	}
	plan.file = ""
	if err == nil {
		return nil
	}
	failed := w.fail(ctx, "apply", output.diagnostics, err)
	return errors.Join(failed, w.pushErrored(context.WithoutCancel(ctx)))
}

// pushErrored writes a state that the backend did not take at the end of an earlier operation.
func (w *Workspace) pushErrored(ctx context.Context) error {
	file := filepath.Join(w.dir, erroredState)
	if _, err := os.Stat(file); err != nil {
		return nil //nolint:nilerr // there is none: the usual case
	}
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "save the state of", nil, err)
	}
	// Pushing, alone of all commands, takes no lock unless it is told to; and without one nothing is written.
	if err := engine.StatePush(ctx, file, tfexec.Lock(true), tfexec.LockTimeout(w.driver.config.LockTimeout.String())); err != nil {
		return w.fail(ctx, "save the state of", nil, err)
	}
	if err := os.Remove(file); err != nil {
		return w.fail(ctx, "save the state of", nil, err)
	}
	return nil
}

// Output reads what the stack has made into a struct with JSON tags, by the outputs' names.
func (w *Workspace) Output(ctx context.Context, into any) error {
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "read outputs of", nil, err)
	}
	outputs, err := engine.Output(ctx)
	if err != nil {
		return w.fail(ctx, "read outputs of", nil, err)
	}
	values := make(map[string]json.RawMessage, len(outputs))
	for name, output := range outputs {
		values[name] = output.Value
	}
	data, err := json.Marshal(values)
	if err != nil {
		return w.fail(ctx, "read outputs of", nil, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return w.fail(ctx, "read outputs of", nil, fmt.Errorf("they are not of the shape that is expected: %w", err))
	}
	return nil
}

// Import takes something that is in the cloud already into the stack.
func (w *Workspace) Import(ctx context.Context, address, id string) error {
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "import into", nil, err)
	}
	if err := engine.Import(ctx, address, id, tfexec.LockTimeout(w.driver.config.LockTimeout.String())); err != nil {
		return w.fail(ctx, "import into", nil, err)
	}
	return nil
}

// Pull returns the state as it is in the backend, with all secrets in it; nothing where there is none yet.
func (w *Workspace) Pull(ctx context.Context) ([]byte, error) {
	engine, err := w.engine()
	if err != nil {
		return nil, w.fail(ctx, "read state of", nil, err)
	}
	raw, err := engine.StatePull(ctx)
	if err != nil {
		return nil, w.fail(ctx, "read state of", nil, err)
	}
	return bytes.TrimSpace([]byte(raw)), nil
}

// State lists the addresses of all resources that the stack has, with the cloud's names for them.
func (w *Workspace) State(ctx context.Context) (map[string]string, error) {
	raw, err := w.Pull(ctx)
	if err != nil {
		return nil, err
	}
	resources, err := ReadState(raw)
	if err != nil {
		return nil, w.fail(ctx, "read state of", nil, err)
	}
	return resources, nil
}

// Forget takes a resource out of the stack; it stays in the cloud.
func (w *Workspace) Forget(ctx context.Context, address string) error {
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "forget a resource of", nil, err)
	}
	if err := engine.StateRm(ctx, address, tfexec.LockTimeout(w.driver.config.LockTimeout.String())); err != nil {
		return w.fail(ctx, "forget a resource of", nil, err)
	}
	return nil
}

// ForceUnlock takes the lock away from an operation that will not give it back.
func (w *Workspace) ForceUnlock(ctx context.Context, id string) error {
	engine, err := w.engine()
	if err != nil {
		return w.fail(ctx, "unlock", nil, err)
	}
	if err := engine.ForceUnlock(ctx, id); err != nil {
		return w.fail(ctx, "unlock", nil, err)
	}
	return nil
}

// lockInfo is how the engine describes the holder of a lock.
var lockInfo = regexp.MustCompile(`(?s)Lock Info:\s*ID:\s*(\S+).*?Operation:\s*(\S*)[ \t]*\n\s*Who:\s*([^\n]*)\n.*?Created:\s*([^\n]*)`)

// fail makes an error of what the engine said, without secrets.
func (w *Workspace) fail(ctx context.Context, operation string, diagnostics []Diagnostic, cause error) error {
	text := cause.Error()
	for _, diagnostic := range diagnostics {
		text += "\n" + diagnostic.Detail
	}
	if match := lockInfo.FindStringSubmatch(text); match != nil {
		lock := &LockError{ID: match[1], Operation: strings.TrimPrefix(match[2], "OperationType"), Who: w.redact.Text(strings.TrimSpace(match[3])), Created: strings.TrimSpace(match[4])}
		return fmt.Errorf("%s stack %s: %w", operation, w.stack.Name, lock)
	}
	failed := &OperationError{Stack: w.stack.Name, Operation: operation, Message: w.redact.Text(tidy(cause.Error()))}
	for _, diagnostic := range diagnostics {
		if diagnostic.Severity == "error" {
			failed.Diagnostics = append(failed.Diagnostics, diagnostic)
		}
	}
	if err := ctx.Err(); err != nil {
		failed.cause = err
	}
	return failed
}

// tidy makes one line of what the engine prints for a terminal.
func tidy(text string) string {
	text = strings.NewReplacer("│", " ", "╷", " ", "╵", " ", "\u001b[31m", "", "\u001b[0m", "", "\u001b[1m", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
