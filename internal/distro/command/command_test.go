package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/module"
)

// run runs the command as a user would.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	command := New()
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&errs)
	err = command.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func tree(t *testing.T, versions ...string) string {
	t.Helper()
	source := t.TempDir()
	for _, version := range versions {
		dir := filepath.Join(source, "distro", version[:strings.LastIndex(version, ".")])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		content := "module m\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes " + version + "\n"
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return source
}

func TestListShowsWhatIsThere(t *testing.T) {
	source := tree(t, "v1.35.4", "v1.36.3")
	out, _, err := run(t, "list", "--source", source)
	if err != nil || !strings.HasPrefix(out, "MINOR") || strings.Index(out, "v1.36.3") > strings.Index(out, "v1.35.4") {
		t.Errorf("list: %q, %v", out, err)
	}
	out, _, err = run(t, "list", "--source", source, "-o", "json")
	var minors []module.Minor
	if err != nil || json.Unmarshal([]byte(out), &minors) != nil || len(minors) != 2 || minors[0].Version != "v1.36.3" {
		t.Errorf("list -o json: %q, %v", out, err)
	}
	if _, _, err := run(t, "list", "--source", source, "-o", "xml"); err == nil || !strings.Contains(err.Error(), "table or json") {
		t.Errorf("list -o xml: %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	source := tree(t, "v1.36.3")
	for want, args := range map[string][]string{
		"not a Kubernetes version": {"add", "1.34", "--source", source},
		"accepts 1 arg":            {"add", "--source", source},
		"no Kubernetes minor":      {"list", "--source", t.TempDir()},
		"make distro":              {"verify", "--source", source},
		"build one with":           {"export", "--source", source, "example.com/a:v1"},
		"unknown flag":             {"build", "--fast"},
	} {
		if _, _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("distro %s: %v, want %q", strings.Join(args, " "), err, want)
		}
	}
}

func TestAnExportAppearsAsAWhole(t *testing.T) {
	source := tree(t, "v1.36.3")
	output := filepath.Join(source, "_output", "release")
	if err := os.MkdirAll(output, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(output, "manifest.json"), []byte(`{"schema":1,"artifacts":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(source, "out.tar")
	if _, _, err := run(t, "export", "--source", source, "--file", file, "example.com/nosuch:v1"); err == nil {
		t.Error("export of an unknown image: want an error")
	}
	left, err := filepath.Glob(filepath.Join(source, "*.tar"))
	hidden, _ := filepath.Glob(filepath.Join(source, ".export-*"))
	if err != nil || len(left)+len(hidden) != 0 {
		t.Errorf("left behind: %v %v", left, hidden)
	}
}

func TestAProgramIsPackagedWhenItHasChanged(t *testing.T) {
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "program"), filepath.Join(dir, "program.tar")
	pack := func(content, ref string) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(binary, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, "package", "--ref", ref, "--file", archive, binary); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(archive)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := pack("one", "example.com/program:v1")
	if again := pack("one", "example.com/program:v1"); !os.SameFile(first, again) {
		t.Error("it was written again")
	}
	second := pack("two", "example.com/program:v1")
	if os.SameFile(first, second) {
		t.Error("the new program was not packaged")
	}
	if third := pack("two", "example.com/program:v2"); os.SameFile(second, third) {
		t.Error("it has no new name")
	}
}
