package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestSizeIsReadFromTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		cpu, memory string
		want        size
		bad         bool
	}{
		{"", "", size{}, false},
		{"2000", "2147483648", size{cpus: 2, memory: 2 << 30}, false},
		{"500", "536870912", size{cpus: 1, memory: 512 << 20}, false},
		{"2500", "", size{cpus: 3}, false},
		{"0", "", size{}, true},
		{"two", "", size{}, true},
		{"", "2Gi", size{}, true},
		{"", "0", size{}, true},
	} {
		got, err := readSize(environment(map[string]string{EnvCPU: c.cpu, EnvMemory: c.memory}))
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%q CPUs and %q bytes: %+v, error %v", c.cpu, c.memory, got, err)
		}
	}
}

const kernelMeminfo = `MemTotal:       24584588 kB
MemFree:        17239460 kB
MemAvailable:   22896244 kB
Buffers:          207292 kB
Cached:          4983596 kB
SwapTotal:       1048576 kB
HugePages_Total:       3
Hugepagesize:       2048 kB
`

func TestMemoryIsTheMachines(t *testing.T) {
	got := size{memory: 2 << 30}.meminfo(kernelMeminfo)
	want := `MemTotal:        2097152 kB
MemFree:         2097152 kB
MemAvailable:    2097152 kB
Buffers:               0 kB
Cached:                0 kB
SwapTotal:             0 kB
HugePages_Total:        0
Hugepagesize:       2048 kB
`
	if got != want {
		t.Errorf("meminfo is\n%s", got)
	}
}

const kernelCPUInfo = `processor	: 0
vendor_id	: GenuineIntel
cpu MHz		: 2100.000
physical id	: 0
siblings	: 2
core id		: 0
cpu cores	: 1
apicid		: 0
flags		: fpu vme

processor	: 1
vendor_id	: GenuineIntel
core id		: 0

`

func TestCPUsAreTheMachines(t *testing.T) {
	got := size{cpus: 3}.cpuinfo(kernelCPUInfo)
	for text, count := range map[string]int{
		"vendor_id	: GenuineIntel\n": 3, "flags		: fpu vme\n\n": 3, "physical id	: 0\n": 3, "siblings	: 3\n": 3, "cpu cores	: 3\n": 3,
		"processor	: 0\n": 1, "processor	: 1\n": 1, "processor	: 2\n": 1, "core id		: 2\n": 1,
	} {
		if strings.Count(got, text) != count {
			t.Errorf("%q is there %d times, not %d", text, strings.Count(got, text), count)
		}
	}
}

func TestTreesOfCPUsHaveAllOfThem(t *testing.T) {
	s := size{cpus: 12, memory: 1 << 30}
	for name, tree := range map[string]map[string]string{"": s.cpuTree(), "node0/": s.nodeTree()} {
		if tree[name+"cpu11/topology/core_id"] != "11\n" || tree[name+"cpu0/topology/physical_package_id"] != "0\n" {
			t.Errorf("%v", tree)
		}
		if _, more := tree[name+"cpu12/topology/core_id"]; more {
			t.Error("there is one too many")
		}
	}
	if online := s.cpuTree()["online"]; online != "0-11\n" {
		t.Errorf("online are %q", online)
	}
	if online := (size{cpus: 1}).cpuTree()["online"]; online != "0\n" {
		t.Errorf("online are %q", online)
	}
	if memory := s.nodeTree()["node0/meminfo"]; !strings.Contains(memory, "MemTotal:        1048576 kB\n") {
		t.Errorf("the node has %q", memory)
	}
}

// secretVolume is how a kubelet lays out a volume of a Secret: links to a directory with a name that changes.
func secretVolume(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, "..2026_11_15", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o400); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(name, "/")
		_ = os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)) // several files have one
	}
	if err := os.Symlink("..2026_11_15", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFilesAreLaidForRootAlone(t *testing.T) {
	source := secretVolume(t, map[string]string{
		"etc/k8shost/config.yaml": "server: somewhere", "etc/k8shost/token": "secret", "root/.ssh/authorized_keys": "ssh-ed25519 AAAA", "plain": "top",
	})
	target := t.TempDir()
	if err := os.MkdirAll(filepath.Join(target, "etc/k8shost"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(target, "etc/k8shost/token")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a machine that starts again has them already, or not
		if err := layFiles(source, target); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"etc/k8shost/config.yaml": "server: somewhere", "etc/k8shost/token": "secret", "root/.ssh/authorized_keys": "ssh-ed25519 AAAA", "plain": "top",
	} {
		file := filepath.Join(target, name)
		content, err := os.ReadFile(file)
		if err != nil || string(content) != want {
			t.Errorf("%s: %q, error %v", name, content, err)
		}
		if info, err := os.Lstat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, error %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Join(target, "root/.ssh")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory of keys: %v, error %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(target)
	if err != nil || len(entries) != 3 {
		t.Errorf("laid %v, error %v", entries, err)
	}
}

func TestNoFilesAreFine(t *testing.T) {
	if err := layFiles(filepath.Join(t.TempDir(), "none"), t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestKeysThatWereReplacedStayReplaced(t *testing.T) {
	dir := t.TempDir()
	kept, target := filepath.Join(dir, "disk", "authorized_keys"), filepath.Join(dir, "root", ".ssh", "authorized_keys")
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	given := filepath.Join(dir, "given")
	if err := os.WriteFile(given, []byte("ssh-ed25519 OLD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() string {
		t.Helper()
		if err := layFile(given, target); err != nil { // as each start does
			t.Fatal(err)
		}
		if err := layKeys(kept, target); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	if got := start(); got != "ssh-ed25519 OLD\n" {
		t.Errorf("at first: %s", got)
	}
	if err := os.WriteFile(kept, []byte("ssh-ed25519 NEW\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := start(); got != "ssh-ed25519 NEW\n" {
		t.Errorf("after they were replaced: %s", got)
	}
}
