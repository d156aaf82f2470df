package guest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A root is new at every start, and the disk is not: what was changed on one is there again with the next.
func TestWhatIsKeptIsThereAtTheNextStart(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "kept")
	start := func(look func(whole, changes string)) {
		root := t.TempDir()
		whole, changes := filepath.Join(root, "whole"), filepath.Join(root, "changes")
		write(t, filepath.Join(changes, "image"), "image")
		// On another disk each directory is found by the path that it has in the machine's root.
		for name, dir := range map[string]string{"whole": whole, "changes": changes} {
			if err := os.MkdirAll(filepath.Join(disk, name), 0o700); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(disk, plainName(dir))
			if err := os.Symlink(filepath.Join(disk, name), link); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // it may be repeated
			if err := bringBack(disk, []string{whole}, []string{changes}); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			for _, dir := range []string{whole, changes} {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}
		}()
		look(whole, changes)
	}
	start(func(whole, changes string) {
		write(t, filepath.Join(whole, "a"), "a")
		write(t, filepath.Join(changes, "b"), "b")
		if got := read(t, filepath.Join(changes, "image")); got != "image" {
			t.Errorf("what is in the image reads %q", got)
		}
		write(t, filepath.Join(changes, "image"), "changed")
	})
	start(func(whole, changes string) {
		for file, want := range map[string]string{filepath.Join(whole, "a"): "a", filepath.Join(changes, "b"): "b", filepath.Join(changes, "image"): "changed"} {
			if got := read(t, file); got != want {
				t.Errorf("%s reads %q", file, got)
			}
		}
	})
}

func TestNothingIsBroughtBackWhereNothingWasKept(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := bringBack(filepath.Join(t.TempDir(), "none"), []string{target}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("something was made")
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
