package etcd

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeSnapshot writes a file of the form that etcd gives snapshots: sectors, and their sum.
func fakeSnapshot(t *testing.T, dir, name string, content byte) string {
	t.Helper()
	sectors := make([]byte, 1024)
	sectors[0] = content
	sum := sha256.Sum256(sectors)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append(sectors, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerifyFindsDamage(t *testing.T) {
	path := fakeSnapshot(t, t.TempDir(), "s", 1)
	if err := Verify(path); err != nil {
		t.Fatalf("a whole snapshot: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[10] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Verify(path); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("a changed bit: %v", err)
	}
	if err := os.WriteFile(path, content[:700], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Verify(path); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Fatalf("a cut file: %v", err)
	}
}

func TestListDeleteAndPrune(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"scheduled-1", "scheduled-2", "scheduled-3", "mine"} {
		path := fakeSnapshot(t, dir, name, byte(i))
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	fakeSnapshot(t, dir, "unfinished.part", 9)
	if err := Prune(dir, "scheduled-", 2); err != nil {
		t.Fatal(err)
	}
	names := func() string {
		snapshots, err := List(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range snapshots {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	if got := names(); got != "mine scheduled-3 scheduled-2" {
		t.Fatalf("after pruning: %q", got)
	}
	if err := Delete(dir, "mine"); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "scheduled-3 scheduled-2" {
		t.Fatalf("after deleting: %q", got)
	}
}

func TestNamesOfSnapshotsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../escape", "", ".hidden", "a/b", "x.part"} {
		if err := Delete(dir, name); err == nil || !strings.Contains(err.Error(), "no name for a snapshot") {
			t.Errorf("Delete(%q) = %v", name, err)
		}
	}
	if err := Delete(dir, "absent"); err == nil || !strings.Contains(err.Error(), "no snapshot") {
		t.Errorf("Delete of an absent one = %v", err)
	}
}
