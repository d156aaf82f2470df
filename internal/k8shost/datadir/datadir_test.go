package datadir

import (
	"os"
	"strings"
	"testing"
)

func TestNamesDeriveFromThePath(t *testing.T) {
	a, b := New("/var/lib/a"), New("/var/lib/b/")
	if a.ID() == b.ID() || a.Cgroup() == b.Cgroup() || a.Runtime() == b.Runtime() {
		t.Fatal("two directories share a name")
	}
	if New("/var/lib/b").ID() != b.ID() {
		t.Fatal("a trailing slash makes another node of it")
	}
}

func TestLockRefusesASecondHolderByName(t *testing.T) {
	dir := New(t.TempDir())
	release, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.RecordLauncher(); err != nil {
		t.Fatal(err)
	}
	_, err = dir.Lock()
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "process") {
		t.Fatalf("second Lock = %v, want an error that names the holder", err)
	}
	if pid, running := dir.Launcher(); !running || pid != os.Getpid() {
		t.Fatalf("Launcher = %d, %v", pid, running)
	}
	release()
	if _, running := dir.Launcher(); running {
		t.Fatal("a released directory still has a launcher")
	}
	release, err = dir.Lock()
	if err != nil {
		t.Fatalf("Lock after release: %v", err)
	}
	release()
}

func TestCheckVersion(t *testing.T) {
	for _, test := range []struct{ last, next, complaint string }{
		{"", "v1.36.3", ""},
		{"v1.35.4", "v1.35.4", ""},
		{"v1.35.4", "v1.36.3", ""},
		{"v1.36.3", "v1.36.1", ""},
		{"v1.36.3", "v1.35.4", "older"},
		{"v1.34.4", "v1.36.3", "skips a minor"},
	} {
		dir := New(t.TempDir())
		if test.last != "" {
			if err := dir.RecordVersion(test.last); err != nil {
				t.Fatal(err)
			}
		}
		err := dir.CheckVersion(test.next)
		if test.complaint == "" && err != nil || test.complaint != "" && (err == nil || !strings.Contains(err.Error(), test.complaint)) {
			t.Errorf("%q opened by %q: %v, want complaint %q", test.last, test.next, err, test.complaint)
		}
	}
}

func TestDamagedVersionIsAnErrorThatNamesTheFile(t *testing.T) {
	dir := New(t.TempDir())
	if err := os.WriteFile(dir.versionFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.CheckVersion("v1.36.3"); err == nil || !strings.Contains(err.Error(), dir.versionFile()) {
		t.Fatalf("CheckVersion = %v, want the file's name", err)
	}
}
