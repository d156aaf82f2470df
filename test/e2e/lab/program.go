package lab

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Serve runs a program on the node, as the given user, until the test ends. Its output goes to a file beside the node's.
func (n *Node) Serve(t *testing.T, account string, program ...string) {
	t.Helper()
	credential := credentialOf(t, account)
	output, err := os.OpenFile(n.Data.Path()+"."+account+".out", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--net=" + namespacePath(n.namespace), "--setuid=" + strconv.Itoa(int(credential.Uid)), "--setgid=" + strconv.Itoa(int(credential.Gid)), "--",
	}, program...)
	cmd := exec.Command("nsenter", args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		// The signal comes when the thread ends that started the process: it must wait with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", program[0], err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
		_ = output.Close()
	})
}

func credentialOf(t *testing.T, account string) syscall.Credential {
	t.Helper()
	found, err := user.Lookup(account)
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatalf("user %s has no numbers", account)
	}
	return syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Cloud runs the command line of the platform on the node, with a configuration of the node's own, and returns what it
// prints. It fails the test where the command fails.
func (n *Node) Cloud(t testing.TB, args ...string) string {
	t.Helper()
	output, err := n.TryCloud(args...)
	if err != nil {
		t.Fatalf("cloud %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// TryCloud is Cloud for commands that may fail.
func (n *Node) TryCloud(args ...string) (string, error) {
	return n.TryCloudWith(n.CloudConfig(), nil, "", args...)
}

// CloudConfig is the configuration of the node's own user of the command line.
func (n *Node) CloudConfig() string { return n.Data.Path() + ".cloud/config.yaml" }

// TryCloudWith is TryCloud with another configuration, a further environment and something on standard input.
func (n *Node) TryCloudWith(config string, environment []string, input string, args ...string) (string, error) {
	binary := filepath.Join(n.lab.Release.Dir(), "bin", "cloud")
	cmd := exec.Command("nsenter", append([]string{"--net=" + namespacePath(n.namespace), "--", binary}, args...)...)
	cmd.Env = append(append(n.lab.environment(), "PLASMACLOUD_CONFIG="+config, "NO_COLOR=1"), environment...)
	return finish(cmd, startPatience, input)
}

// MakeUp does what `make up` does with what is built, and returns what it prints.
func (n *Node) MakeUp(t testing.TB) string {
	t.Helper()
	script, err := filepath.Abs("../../../hack/up.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net="+namespacePath(n.namespace), "--", script, n.lab.Release.Dir(), n.Data.Path())
	cmd.Env = append(n.lab.environment(), "PLASMACLOUD_CONFIG="+n.CloudConfig(), "NO_COLOR=1")
	output, err := finish(cmd, startPatience, "")
	if err != nil {
		t.Fatalf("make up: %v\n%s", err, output)
	}
	return output
}

// KubectlWithCloud runs kubectl with a kubeconfig that logs in by the command line, and the configuration of that.
func (n *Node) KubectlWithCloud(config, kubeconfig string, args ...string) (string, error) {
	cmd := n.command(n.kubectl(args)...)
	cmd.Env = append(cmd.Env, "PLASMACLOUD_CONFIG="+config, "KUBECONFIG="+kubeconfig)
	output, err := finish(cmd, commandPatience, "")
	return strings.TrimSpace(output), err
}
