package terraform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// engine is a program that notes how it was called, for what needs no real one.
const engine = `#!/bin/sh
[ "$1" = version ] && { echo '{"terraform_version":"1.12.6"}'; exit; }
env > called.env
echo "$@" > called.args
[ -z "$FAKE_FAILS" ] || { echo "Error: $FAKE_FAILS" >&2; exit 1; }
`

func newDriver(t *testing.T) *Driver {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tofu")
	if err := os.WriteFile(binary, []byte(engine), 0o755); err != nil {
		t.Fatal(err)
	}
	driver, err := New(Config{Binary: binary, Mirror: "/mirror", Root: filepath.Join(t.TempDir(), "workspaces")})
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

func sampleStack() Stack {
	return Stack{
		Name: "team.network.main", Variables: map[string]any{"name": "main"}, Environment: map[string]string{"CLOUD_SECRET": "hunter2hunter2"},
		Configuration: Configuration{Files: map[string][]byte{"main.tf": []byte("# one"), "old.tf": []byte("# gone later")}},
		Backend:       HTTPBackend("https://example.com/state", "stack", "token-token-token"),
	}
}

func open(t *testing.T, driver *Driver, stack Stack) *Workspace {
	t.Helper()
	workspace, err := driver.Open(stack)
	if err != nil {
		t.Fatal(err)
	}
	return workspace
}

func TestAWorkspaceIsItsOwnersOnly(t *testing.T) {
	w := open(t, newDriver(t), sampleStack())
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s, %v", path, info.Mode(), err)
		}
		if entry.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "hunter2") || strings.Contains(string(data), "token-token") {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTheEngineSeesWhatItShallSee(t *testing.T) {
	t.Setenv("AWS_PROFILE", "ours")
	t.Setenv("NO_PROXY", "example.com")
	w := open(t, newDriver(t), sampleStack())
	if err := w.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	environment, err := os.ReadFile(filepath.Join(w.dir, "called.env"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"CLOUD_SECRET=hunter2hunter2": true, "TF_HTTP_PASSWORD=token-token-token": true, "NO_PROXY=example.com": true, "HOME=" + w.dir: true,
		"AWS_EC2_METADATA_DISABLED=true": true, "AWS_PROFILE": false,
	} {
		if strings.Contains(string(environment), text) != want {
			t.Errorf("%q in the environment: want %v", text, want)
		}
	}
	arguments, err := os.ReadFile(filepath.Join(w.dir, "called.args"))
	if err != nil || strings.Contains(string(arguments), "hunter2") || strings.Contains(string(arguments), "token") {
		t.Errorf("it was called with %s, %v", arguments, err)
	}
	configuration, err := os.ReadFile(filepath.Join(w.dir, engineConfig))
	if err != nil || !strings.Contains(string(configuration), `path = "/mirror"`) || strings.Contains(string(configuration), "direct") {
		t.Errorf("it is configured with %s, %v", configuration, err)
	}
}

func TestConfigurationOfAnEarlierVersionGoes(t *testing.T) {
	driver := newDriver(t)
	open(t, driver, sampleStack())
	stack := sampleStack()
	delete(stack.Configuration.Files, "old.tf")
	w := open(t, driver, stack)
	if _, err := os.Stat(filepath.Join(w.dir, "old.tf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("old.tf: %v", err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, erroredState), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = open(t, driver, stack) // which leaves a state that was not written where it is
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), erroredState) {
		t.Errorf("Close with a state that was not written = %v", err)
	}
}

func TestBadStacksAreRefused(t *testing.T) {
	driver := newDriver(t)
	for want, change := range map[string]func(*Stack){
		"use lower-case letters": func(s *Stack) { s.Name = "../up" },
		"no configuration":       func(s *Stack) { s.Configuration.Files = nil },
		"is no name":             func(s *Stack) { s.Configuration.Files = map[string][]byte{"../x.tf": nil} },
		"no backend":             func(s *Stack) { s.Backend = Backend{} },
		"is a secret": func(s *Stack) {
			s.Backend = Backend{Type: "s3", Settings: map[string]any{"bucket": "b", "key": "k", "secret_key": "x"}}
		},
	} {
		stack := sampleStack()
		change(&stack)
		if _, err := driver.Open(stack); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, want %q", err, want)
		}
	}
	for want, config := range map[string]Config{
		"no engine": {Mirror: "/m", Root: t.TempDir()}, "no mirror": {Binary: "/bin/true", Root: t.TempDir()}, "no root": {Binary: "/bin/true", Mirror: "/m"},
		"no such file": {Binary: "/nonexistent", Mirror: "/m", Root: t.TempDir()},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q", err, want)
		}
	}
}

func TestAnErrorIsOneLineWithoutSecrets(t *testing.T) {
	stack := sampleStack()
	stack.Environment["FAKE_FAILS"] = "the key hunter2hunter2\nis not good"
	err := open(t, newDriver(t), stack).Init(t.Context())
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "prepare stack team.network.main") {
		t.Errorf("Init = %v", err)
	}
	locked := `Error: Error acquiring the state lock

Lock Info:
  ID:        4a1e4b0d-0000
  Path:      
  Operation: OperationTypeApply
  Who:       root@deployer
  Version:   1.12.6
  Created:   2026-11-15 10:00:00 +0000 UTC
  Info:      
`
	err = open(t, newDriver(t), sampleStack()).fail(t.Context(), "plan", nil, errors.New(locked))
	var holder *LockError
	if !errors.As(err, &holder) || holder.ID != "4a1e4b0d-0000" || holder.Who != "root@deployer" || holder.Operation != "Apply" || !strings.HasPrefix(holder.Created, "2026-11-15") {
		t.Errorf("%v", err)
	}
}

func TestSocketsFitWhateverTheStackIsCalled(t *testing.T) {
	driver := newDriver(t)
	stack := sampleStack()
	stack.Name = strings.Repeat("long", 40)
	workspace := open(t, driver, stack)
	dir := workspace.environment()["TMPDIR"]
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 || len(dir) > longestTemporary {
		t.Errorf("%s: %v, %v", dir, info, err)
	}
	if err := workspace.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
	config := driver.config
	config.Root = filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "too long a name") {
		t.Errorf("a folder with a long name: %v", err)
	}
}

func TestAStateIsReadByAddress(t *testing.T) {
	got, err := ReadState([]byte(`{"version":4,"resources":[
		{"mode":"managed","type":"aws_vpc","name":"this","instances":[{"attributes":{"id":"vpc-1"}}]},
		{"mode":"managed","module":"module.a","type":"aws_subnet","name":"s","instances":[{"index_key":"x","attributes":{"id":"subnet-1"}},{"index_key":1,"attributes":{}}]},
		{"mode":"data","type":"aws_partition","name":"this","instances":[{"attributes":{"id":"aws"}}]}]}`))
	if err != nil || len(got) != 3 || got["aws_vpc.this"] != "vpc-1" || got[`module.a.aws_subnet.s["x"]`] != "subnet-1" {
		t.Errorf("ReadState = %v, %v", got, err)
	}
	if got, err := ReadState(nil); err != nil || len(got) != 0 {
		t.Errorf("ReadState of nothing = %v, %v", got, err)
	}
	if _, err := ReadState([]byte("{")); err == nil {
		t.Error("ReadState of nonsense: want an error")
	}
}
