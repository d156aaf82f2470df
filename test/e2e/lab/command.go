package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
)

// commandPatience is for commands that should take a second.
const commandPatience = 2 * time.Minute

// command is k8shost in the node's network namespace. nsenter, unlike `ip netns exec`, leaves /sys/fs/cgroup visible.
func (n *Node) command(args ...string) *exec.Cmd {
	binary := filepath.Join(n.lab.Release.Dir(), "bin", "k8shost")
	cmd := exec.Command("nsenter", append([]string{"--net=" + namespacePath(n.namespace), "--", binary}, args...)...)
	cmd.Env = append(n.lab.environment(), "K8SHOST_DATA_DIR="+n.Data.Path())
	return cmd
}

// environment is that of the test without what would make a run depend on who runs it.
func (l *Lab) environment() []string {
	environment := []string{
		release.EnvDir + "=" + l.Release.Dir(),
		"K8SHOST_CONFIG=/dev/null", // the host may have a node of its own, with a configuration
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		foreign := strings.HasPrefix(name, "K8SHOST_") || strings.HasSuffix(name, "_PROXY") || name == "KUBECONFIG" || name == release.EnvDir
		if !foreign {
			environment = append(environment, entry)
		}
	}
	return environment
}

// run runs a command of k8shost to its end and returns what it printed, errors included.
func (n *Node) run(within time.Duration, input string, args ...string) (string, error) {
	return finish(n.command(args...), within, input)
}

func finish(cmd *exec.Cmd, within time.Duration, input string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &output, &output
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done within %s", within)
	}
	return output.String(), err
}

// Run runs a command of k8shost on the node, about its data directory, and returns what it printed.
func (n *Node) Run(t testing.TB, args ...string) string {
	t.Helper()
	output, err := n.TryRun(args...)
	if err != nil {
		t.Fatalf("k8shost %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// TryRun is Run where failing is the caller's business.
func (n *Node) TryRun(args ...string) (string, error) {
	return n.run(commandPatience, "", args...)
}

// Refuses runs a command of k8shost that has to fail by itself within seconds, and returns what it said.
func (n *Node) Refuses(t testing.TB, args ...string) string {
	t.Helper()
	// Seconds, on a machine that may be busy.
	output, err := n.run(30*time.Second, "", args...)
	if err == nil {
		t.Fatalf("k8shost %s: did not fail\n%s", strings.Join(args, " "), output)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		t.Fatalf("k8shost %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// Kubectl runs kubectl on the node as the cluster's administrator.
func (n *Node) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return n.KubectlWith(t, "", args...)
}

// KubectlWith is Kubectl with something on its standard input.
func (n *Node) KubectlWith(t testing.TB, input string, args ...string) string {
	t.Helper()
	output, err := n.run(commandPatience, input, n.kubectl(args)...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(output)
}

// TryKubectl is Kubectl where failing is the caller's business.
func (n *Node) TryKubectl(args ...string) (string, error) {
	output, err := n.run(commandPatience, "", n.kubectl(args)...)
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(output))
	}
	return strings.TrimSpace(output), err
}

// KubectlAs runs kubectl on the node with credentials that the node itself holds.
func (n *Node) KubectlAs(kubeconfig string, args ...string) (string, error) {
	cmd := n.command(n.kubectl(args)...)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig)
	output, err := finish(cmd, commandPatience, "")
	return strings.TrimSpace(output), err
}

func (n *Node) kubectl(args []string) []string { return append([]string{"kubectl"}, args...) }

// Exec runs a command in a pod and returns what it printed. Output of a pod is trimmed like that of kubectl.
func (n *Node) Exec(t testing.TB, pod string, command ...string) string {
	t.Helper()
	return n.Kubectl(t, append([]string{"exec", pod, "--"}, command...)...)
}

// TryExec is Exec where failing is the caller's business.
func (n *Node) TryExec(pod string, command ...string) (string, error) {
	return n.TryKubectl(append([]string{"exec", pod, "--"}, command...)...)
}

// Background runs kubectl until the test, or the step, ends. It returns the file that its output goes to.
func (n *Node) Background(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "output")
	output, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	cmd := n.command(n.kubectl(args)...)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return file
}

// AwaitNodeReady waits until the cluster says that a node is Ready.
func (n *Node) AwaitNodeReady(t testing.TB, name string) {
	t.Helper()
	n.AwaitNode(t, name, "True")
}

// AwaitNode waits until a node's condition Ready has a value: True, False or Unknown.
func (n *Node) AwaitNode(t testing.TB, name, ready string) {
	t.Helper()
	Eventually(t, startPatience, fmt.Sprintf("node %s is Ready=%s", name, ready), func() error {
		got, err := n.TryKubectl("get", "node", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && got != ready {
			err = fmt.Errorf("it is Ready=%s", got)
		}
		return err
	})
}

// AwaitPods waits until all pods of a selector are Ready, and at least one.
func (n *Node) AwaitPods(t testing.TB, selector string) {
	t.Helper()
	n.Kubectl(t, "wait", "pod", "-l", selector, "--for=condition=Ready", "--timeout=110s")
}
