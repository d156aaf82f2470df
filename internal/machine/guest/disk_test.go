package guest

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiskIsReadFromTheEnvironment(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "21474836480": 20 << 30} {
		if got, err := readDisk(environment(map[string]string{EnvDisk: text})); err != nil || got != want {
			t.Errorf("%q: %d, error %v", text, got, err)
		}
	}
	for _, text := range []string{"20Gi", "-1", "0"} {
		if got, err := readDisk(environment(map[string]string{EnvDisk: text})); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// attached mounts the disk, looks at it, and unmounts it.
func attached(t *testing.T, image string, bytes int64, look func(dir string)) {
	t.Helper()
	dir := t.TempDir()
	if err := mountImage(image, bytes, dir); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	look(dir)
}

func TestDiskHasItsSizeAndKeepsWhatIsOnIt(t *testing.T) {
	const bytes = 1 << 30
	image := filepath.Join(t.TempDir(), imageName)
	attached(t, image, bytes, func(dir string) {
		var now unix.Statfs_t
		if err := unix.Statfs(dir, &now); err != nil {
			t.Fatal(err)
		}
		if size := int64(now.Blocks) * now.Bsize; size > bytes || size < bytes*95/100 {
			t.Errorf("it shows %d bytes", size)
		}
		if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	attached(t, image, bytes, func(dir string) {
		if content, err := os.ReadFile(filepath.Join(dir, "kept")); err != nil || string(content) != "kept" {
			t.Errorf("%q, error %v", content, err)
		}
	})
	var file unix.Stat_t
	if err := unix.Stat(image, &file); err != nil || file.Blocks*512 > bytes/10 {
		t.Errorf("the file takes %d bytes of the host's disk, error %v", file.Blocks*512, err)
	}
}

func TestDiskThatIsBeyondRepairIsMadeAnew(t *testing.T) {
	image := filepath.Join(t.TempDir(), imageName)
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	attached(t, image, 64<<20, func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
}
