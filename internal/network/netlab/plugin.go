package netlab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Main is what TestMain does in packages that need the real program: it builds
// it, tells where it is, and runs the tests.
func Main(m *testing.M, program *string) {
	code, err := run(m, program)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, program *string) (code int, err error) {
	dir, err := os.MkdirTemp("", "netlab-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	*program = filepath.Join(dir, "prismnet")
	build := exec.Command("go", "build", "-o", *program, "plasmacloud.io/plasmacloud/cmd/prismnet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build prismnet: %w\n%s", err, output)
	}
	return m.Run(), nil
}

// Runtime runs the plugin as a container runtime does: as a process of its own
// in the node's namespace, with environment and standard input.
type Runtime struct {
	Program string
	Node    *Namespace
	// Config is the network configuration as JSON fields.
	Config map[string]any
}

// Pod is a sandbox that the runtime made.
type Pod struct {
	*Namespace
	ID string
	// Home is the pod's Kubernetes namespace; empty means default. Its name there
	// is its ID.
	Home string
	// Address is set by a successful ADD.
	Address netip.Addr
	Result  *types100.Result
}

// NewPod makes a sandbox without network.
func NewPod(t testing.TB, id string) *Pod {
	t.Helper()
	return &Pod{Namespace: New(t), ID: id}
}

// Command prepares a call of the plugin; the caller may still change it, and
// must start it in the node's namespace.
func (r *Runtime) Command(command string, pod *Pod, extra map[string]any) (*exec.Cmd, error) {
	config := map[string]any{}
	for _, fields := range []map[string]any{r.Config, extra} {
		for name, value := range fields {
			config[name] = value
		}
	}
	stdin, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(r.Program)
	home := pod.Home
	if home == "" {
		home = "default"
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "CNI_COMMAND=" + command, "CNI_CONTAINERID=" + pod.ID,
		"CNI_NETNS=" + pod.Path, "CNI_IFNAME=eth0", "CNI_PATH=" + filepath.Dir(r.Program),
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + home + ";K8S_POD_NAME=" + pod.ID,
	}
	cmd.Stdin = bytes.NewReader(stdin)
	return cmd, nil
}

// Call runs the plugin and returns what it printed, or its error.
func (r *Runtime) Call(command string, pod *Pod, extra map[string]any) ([]byte, error) {
	cmd, err := r.Command(command, pod, extra)
	if err != nil {
		return nil, err
	}
	return r.Run(cmd)
}

// Run runs a prepared call. A failure is a *types.Error if the plugin told one.
func (r *Runtime) Run(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := r.Node.Try(cmd.Run)
	if err == nil {
		return stdout.Bytes(), nil
	}
	told := &types.Error{}
	if json.Unmarshal(stdout.Bytes(), told) == nil && told.Msg != "" {
		return nil, told
	}
	return nil, fmt.Errorf("run plugin: %w\n%s%s", err, stdout.Bytes(), stderr.Bytes())
}

// Add attaches a pod.
func (r *Runtime) Add(pod *Pod, extra map[string]any) error {
	output, err := r.Call("ADD", pod, extra)
	if err != nil {
		return err
	}
	result, err := types100.NewResult(output)
	if err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	pod.Result = result.(*types100.Result)
	if len(pod.Result.IPs) != 1 {
		return fmt.Errorf("result has %d addresses: %s", len(pod.Result.IPs), output)
	}
	addr, ok := netip.AddrFromSlice(pod.Result.IPs[0].Address.IP)
	if !ok {
		return fmt.Errorf("result has no address: %s", output)
	}
	pod.Address = addr.Unmap()
	return nil
}

// Del detaches a pod.
func (r *Runtime) Del(pod *Pod) error {
	_, err := r.Call("DEL", pod, nil)
	return err
}

// Check compares a pod with what Add reported.
func (r *Runtime) Check(pod *Pod) error {
	_, err := r.Call("CHECK", pod, map[string]any{"prevResult": pod.Result})
	return err
}

// Start makes and attaches a pod, or fails the test.
func (r *Runtime) Start(t testing.TB, id string, extra map[string]any) *Pod {
	t.Helper()
	pod := NewPod(t, id)
	if err := r.Add(pod, extra); err != nil {
		t.Fatalf("add pod %s: %v", id, err)
	}
	return pod
}

// Ports is the extra configuration that maps host ports.
func Ports(mappings ...map[string]any) map[string]any {
	return map[string]any{"runtimeConfig": map[string]any{"portMappings": mappings}}
}
