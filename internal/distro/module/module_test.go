package module

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var update = flag.Bool("update", false, "write the golden files")

func minor(t *testing.T, distroDir, name, version string) {
	t.Helper()
	dir := filepath.Join(distroDir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := "module example.com/" + name + "\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes " + version + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestScanListsNewestFirst(t *testing.T) {
	dir := t.TempDir()
	minor(t, dir, "v1.9", "v1.9.11")
	minor(t, dir, "v1.36", "v1.36.3")
	minor(t, dir, "v1.35", "v1.35.4")
	minor(t, dir, "v1.x", "v1.35.4") // not a minor
	minor(t, dir, "runtime", "v1.35.4")
	minors, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, m := range minors {
		versions = append(versions, m.Version)
	}
	if got := strings.Join(versions, " "); got != "v1.36.3 v1.35.4 v1.9.11" {
		t.Errorf("Scan = %s", got)
	}
	if !filepath.IsAbs(minors[0].Dir) {
		t.Errorf("Dir = %s, want an absolute path", minors[0].Dir)
	}
}

func TestScanRefusesAWrongFolder(t *testing.T) {
	if _, err := Scan(t.TempDir()); err == nil {
		t.Error("Scan of an empty folder: want an error")
	}
	dir := t.TempDir()
	minor(t, dir, "v1.36", "v1.35.4")
	if _, err := Scan(dir); err == nil || !strings.Contains(err.Error(), "not of minor v1.36") {
		t.Errorf("Scan of a version in the wrong folder: %v", err)
	}
}

func upstream(t *testing.T, content string) *modfile.File {
	t.Helper()
	parsed, err := modfile.Parse("go.mod", []byte(content), nil)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestGenerateReplacesStagingByPublishedModules(t *testing.T) {
	sample, err := os.ReadFile("testdata/upstream.mod")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Generate(upstream(t, string(sample)), "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/generated.golden"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("Generate wrote\n%s\nwant\n%s", got, want)
	}
}

func TestGenerateRefusesWhatItDoesNotUnderstand(t *testing.T) {
	const head = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire github.com/spf13/cobra v1.10.2\n"
	for reason, test := range map[string]struct{ upstream, version string }{
		"write it in full":        {head + "replace k8s.io/api => ./staging/src/k8s.io/api\n", "v1.36"},
		"lacks a go line":         {head, "v1.36.3"},
		"which is no staging":     {head + "replace k8s.io/api => ../elsewhere\n", "v1.36.3"},
		"does not require github": {"module m\n\ngo 1.26.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n", "v1.36.3"},
	} {
		_, err := Generate(upstream(t, test.upstream), test.version)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("Generate = %v, want %q", err, reason)
		}
	}
}

func TestAddRefusesABadVersionBeforeAnythingElse(t *testing.T) {
	for _, version := range []string{"", "1.36.3", "v1.36", "v2.0.0", "v1.36.3+k8s", "latest", "v1.36.3; rm -rf /"} {
		if _, err := Add(t.Context(), t.TempDir(), version, io.Discard); err == nil || !strings.Contains(err.Error(), "not a Kubernetes version") {
			t.Errorf("Add(%q) = %v", version, err)
		}
	}
}

func TestADownloadThatFailsSaysWhy(t *testing.T) {
	for message, want := range map[string]string{
		"k8s.io/kubernetes@v1.99.0: invalid version: unknown revision v1.99.0":    "no such version",
		"reading …: 404 Not Found: not found: k8s.io/kubernetes@v1.99.0":          "no such version",
		"verifying module: checksum mismatch … SECURITY ERROR":                    "checksum database",
		"k8s.io/kubernetes@v1.36.3: verifying module: reading checksum tile: 500": "checksum database",
		"dial tcp: connection refused":                                            "connection refused",
	} {
		if err := fetchError(Kubernetes, "v1.99.0", message); !strings.Contains(err.Error(), want) {
			t.Errorf("fetchError(%q) = %v, want %q", message, err, want)
		}
	}
}
