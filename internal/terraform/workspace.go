package terraform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/terraform-exec/tfexec"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

// Files that the driver writes beside the configuration's own.
const (
	variablesFile = "plasmacloud.auto.tfvars.json" // the engine reads it by its name
	backendFile   = "plasmacloud_backend.tf.json"
	engineConfig  = "engine.tfrc"
	lockFileName  = ".terraform.lock.hcl"
	planFile      = "plan.bin"
	erroredState  = "errored.tfstate" // where the engine leaves a state that its backend did not take
)

// passed are the variables of our own environment that the engine gets too: how to reach the world, and whom to trust
// there. Anything else, above all credentials that are ours, stays here.
var passed = []string{"PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Workspace is a stack with a folder of its own, readable for its owner only. One operation at a time.
type Workspace struct {
	driver *Driver
	stack  Stack
	dir    string
	redact *Redactor

	started *tfexec.Terraform // nil before the first command
}

// Open prepares the workspace of a stack. The folder may be there from an earlier operation: what is in it is brought
// up to date.
func (d *Driver) Open(stack Stack) (*Workspace, error) {
	if err := stack.validate(); err != nil {
		return nil, err
	}
	w := &Workspace{driver: d, stack: stack, dir: filepath.Join(d.config.Root, stack.Name)}
	w.redact = NewRedactor(slices.Concat(
		slices.Collect(maps.Values(stack.Environment)), slices.Collect(maps.Values(stack.Backend.Environment)), stack.Secrets)...)
	if err := w.prepare(); err != nil {
		return nil, fmt.Errorf("prepare stack %s: %w", stack.Name, err)
	}
	return w, nil
}

// Close removes the folder with all that is secret in it. A state that could not be written stays.
func (w *Workspace) Close() error {
	if _, err := os.Stat(filepath.Join(w.dir, erroredState)); err == nil {
		return fmt.Errorf("close stack %s: its state could not be written and is kept at %s", w.stack.Name, filepath.Join(w.dir, erroredState))
	}
	if err := errors.Join(os.RemoveAll(w.dir), os.RemoveAll(w.temporary())); err != nil {
		return fmt.Errorf("close stack %s: %w", w.stack.Name, err)
	}
	return nil
}

// longestTemporary is how long the name of a folder may be that providers make their sockets in, such as
// plugin1234567890: the kernel takes 107 characters for all of it.
const longestTemporary = 107 - len("/plugin1234567890")

// temporary is the folder for files that do not last: in the workspace, or beside it where the stack has a long name.
func (w *Workspace) temporary() string {
	inside := filepath.Join(w.dir, "tmp")
	if len(inside) <= longestTemporary {
		return inside
	}
	return filepath.Join(w.driver.config.Root, shortName(w.stack.Name))
}

// shortName is one that no stack has.
func shortName(stack string) string {
	sum := sha256.Sum256([]byte(stack))
	return "." + hex.EncodeToString(sum[:5])
}

func (w *Workspace) prepare() error {
	for _, dir := range []string{w.dir, w.temporary()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.Chmod(w.dir, 0o700); err != nil { //nolint:gosec // a folder
		return err
	}
	files := maps.Clone(w.stack.Configuration.Files)
	for name, content := range map[string]any{
		variablesFile: w.stack.Variables,
		backendFile:   map[string]any{"terraform": map[string]any{"backend": map[string]any{w.stack.Backend.Type: w.stack.Backend.Settings}}},
	} {
		data, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		files[name] = data
	}
	if w.stack.Variables == nil {
		files[variablesFile] = []byte("{}")
	}
	files[engineConfig] = w.engineConfig()
	if len(w.stack.Configuration.Lock) > 0 {
		files[lockFileName] = w.stack.Configuration.Lock
	}
	if err := w.removeStale(files); err != nil {
		return err
	}
	for name, data := range files {
		if err := atomicfile.Write(filepath.Join(w.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// removeStale removes configuration of an earlier version, which the engine would take for a part of this one.
func (w *Workspace) removeStale(files map[string][]byte) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		configuration := slices.Contains([]string{".tf", ".json", ".tofu", ".tfvars", ".hcl"}, filepath.Ext(entry.Name()))
		if _, ours := files[entry.Name()]; ours || entry.IsDir() || !configuration {
			continue
		}
		if err := os.Remove(filepath.Join(w.dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// engineConfig makes the engine install providers from the mirror, and from nowhere else.
func (w *Workspace) engineConfig() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "disable_checkpoint = true\n\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", w.driver.config.Mirror)
	return out.Bytes()
}

// engine is the program, ready for one command. It is the same for all of them: a new one would ask for its version first.
func (w *Workspace) engine() (*tfexec.Terraform, error) {
	if w.started != nil {
		w.started.SetStdout(io.Discard) // not where the last command streamed to
		return w.started, nil
	}
	engine, err := tfexec.NewTerraform(w.dir, w.driver.config.Binary)
	if err != nil {
		return nil, err
	}
	if err := engine.SetWaitDelay(w.driver.config.Grace); err != nil {
		return nil, err
	}
	if err := engine.SetEnv(w.environment()); err != nil {
		return nil, err
	}
	w.started = engine
	return engine, nil
}

// environment is all that the engine and its providers see.
func (w *Workspace) environment() map[string]string {
	environment := map[string]string{
		"HOME":   w.dir, // no configuration of a user of this host is read
		"TMPDIR": w.temporary(),

		"TF_CLI_CONFIG_FILE": filepath.Join(w.dir, engineConfig),
		"CHECKPOINT_DISABLE": "1",

		// The host that we run on may have an identity of its own in some cloud. It is not the customer's.
		"AWS_EC2_METADATA_DISABLED": "true",
		"AWS_SDK_LOAD_CONFIG":       "false",
	}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			environment[name] = value
		}
	}
	maps.Copy(environment, w.stack.Backend.Environment)
	maps.Copy(environment, w.stack.Environment)
	return environment
}
