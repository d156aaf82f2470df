package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// coverDir is where the files lie that cover the kernel's.
const coverDir = "/run/plasmacloud"

// size is how large the machine is. The kernel tells programs in a container how large the host is; a kubelet would
// offer all of that to pods.
type size struct {
	cpus   int
	memory uint64 // bytes
}

// readSize reads the machine's size from its environment; zero where it is not told.
func readSize(getenv func(string) string) (size, error) {
	var s size
	if text := getenv(EnvCPU); text != "" {
		thousandths, err := strconv.Atoi(text)
		if err != nil || thousandths < 1 {
			return size{}, fmt.Errorf("%s is %q, which is no number of thousandths of a CPU", EnvCPU, text)
		}
		s.cpus = (thousandths + 999) / 1000
	}
	if text := getenv(EnvMemory); text != "" {
		var err error
		if s.memory, err = strconv.ParseUint(text, 10, 64); err != nil || s.memory == 0 {
			return size{}, fmt.Errorf("%s is %q, which is no number of bytes", EnvMemory, text)
		}
	}
	return s, nil
}

// show lays files with the machine's size over those of the kernel that tell the host's.
func (s size) show() error {
	if s.memory > 0 {
		if err := rewrite("/proc/meminfo", s.meminfo); err != nil {
			return err
		}
	}
	if s.cpus == 0 {
		return nil
	}
	if err := rewrite("/proc/cpuinfo", s.cpuinfo); err != nil {
		return err
	}
	for dir, content := range map[string]map[string]string{
		"/sys/devices/system/cpu":  s.cpuTree(),
		"/sys/devices/system/node": s.nodeTree(),
	} {
		if err := coverTree(dir, content); err != nil {
			return err
		}
	}
	return nil
}

// meminfo rewrites the kernel's account of memory: all that the machine has is free. Programs that want to know how
// much is used read the machine's cgroup.
func (s size) meminfo(kernel string) string {
	var out strings.Builder
	for line := range strings.Lines(kernel) {
		name, _, _ := strings.Cut(line, ":")
		switch name {
		case "MemTotal", "MemFree", "MemAvailable":
			fmt.Fprintf(&out, "%-15s %8d kB\n", name+":", s.memory/1024)
		case "Hugepagesize":
			out.WriteString(line)
		default:
			unit := ""
			if strings.HasSuffix(strings.TrimSpace(line), "kB") {
				unit = " kB"
			}
			fmt.Fprintf(&out, "%-15s %8d%s\n", name+":", 0, unit)
		}
	}
	return out.String()
}

var cpuinfoNumbers = regexp.MustCompile(`(?m)^(processor|physical id|siblings|core id|cpu cores|apicid|initial apicid)(\s*:).*$`)

// cpuinfo rewrites the kernel's list of CPUs: as many as the machine has, each a core, all of the kind of the first.
func (s size) cpuinfo(kernel string) string {
	first, _, _ := strings.Cut(kernel, "\n\n")
	var out strings.Builder
	for cpu := range s.cpus {
		out.WriteString(cpuinfoNumbers.ReplaceAllStringFunc(first, func(line string) string {
			parts := cpuinfoNumbers.FindStringSubmatch(line)
			number := cpu
			switch parts[1] {
			case "physical id":
				number = 0
			case "siblings", "cpu cores":
				number = s.cpus
			}
			return fmt.Sprintf("%s%s %d", parts[1], parts[2], number)
		}))
		out.WriteString("\n\n")
	}
	return out.String()
}

// cpuTree is the kernel's directory of CPUs.
func (s size) cpuTree() map[string]string {
	all := s.cpuList() + "\n"
	tree := map[string]string{"online": all, "possible": all, "present": all, "offline": "\n", "kernel_max": fmt.Sprintln(s.cpus - 1)}
	for cpu := range s.cpus {
		for name, content := range topology(cpu) {
			tree[fmt.Sprintf("cpu%d/topology/%s", cpu, name)] = content
		}
	}
	return tree
}

// nodeTree is the kernel's directory of memory nodes: one, with everything.
func (s size) nodeTree() map[string]string {
	tree := map[string]string{
		"online": "0\n", "possible": "0\n", "has_cpu": "0\n", "has_memory": "0\n", "has_normal_memory": "0\n",
		"node0/cpulist": s.cpuList() + "\n", "node0/distance": "10\n",
	}
	if s.memory > 0 {
		tree["node0/meminfo"] = fmt.Sprintf("Node 0 MemTotal: %14d kB\nNode 0 MemFree:  %14d kB\n", s.memory/1024, s.memory/1024)
	}
	for cpu := range s.cpus {
		for name, content := range topology(cpu) {
			tree[fmt.Sprintf("node0/cpu%d/topology/%s", cpu, name)] = content
		}
	}
	return tree
}

func topology(cpu int) map[string]string {
	return map[string]string{
		"core_id": fmt.Sprintln(cpu), "physical_package_id": "0\n",
		"thread_siblings_list": fmt.Sprintln(cpu), "core_cpus_list": fmt.Sprintln(cpu),
	}
}

func (s size) cpuList() string {
	if s.cpus == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", s.cpus-1)
}

// showID gives the machine a hardware id of its own, where the host has one.
func showID(id string) error {
	if id == "" {
		return nil
	}
	return rewrite("/sys/class/dmi/id/product_uuid", func(string) string { return id + "\n" })
}

// rewrite covers a file of the kernel's with what the function makes of it. One that is not there is left out.
func rewrite(file string, change func(string) string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cover := filepath.Join(coverDir, filepath.Base(file))
	if err := os.MkdirAll(coverDir, 0o755); err != nil { //nolint:gosec // anyone may read it
		return err
	}
	if err := os.WriteFile(cover, []byte(change(string(content))), 0o444); err != nil { //nolint:gosec // as the kernel's own is
		return err
	}
	if err := unix.Mount(cover, file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", file, err)
	}
	return nil
}

// coverTree covers a directory of the kernel's with another one. One that is not there is left out.
func coverTree(dir string, content map[string]string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=4m"); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	for name, text := range content {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as the kernel's own is
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o444); err != nil { //nolint:gosec // as the kernel's own is
			return err
		}
	}
	return nil
}
