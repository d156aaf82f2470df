package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/release"
)

const (
	// Toolbox is an image with a shell and small network programs, which every node has.
	Toolbox = "plasmacloud.io/toolbox:latest"

	// startPatience and stopPatience are far beyond what is usual: the machine may be busy with other things.
	startPatience = 8 * time.Minute
	stopPatience  = 100 * time.Second
)

// Node is a host of the lab.
type Node struct {
	Name string
	IP   string
	Data datadir.Dir

	lab       *Lab
	namespace string
	port      string // the switch's end of its cable
	role      string
	flags     []string
	process   *process
	purged    bool
}

// process is a launcher that was started.
type process struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
}

// Node adds a host on the first segment of the network.
func (l *Lab) Node(t *testing.T, name string) *Node { return l.NodeOn(t, 0, name) }

// NodeOn adds a host on a segment. Its data directory holds nothing but the archive of the toolbox, for import.
func (l *Lab) NodeOn(t *testing.T, segment int, name string) *Node {
	t.Helper()
	n := &Node{Name: name, Data: datadir.New(filepath.Join(l.Dir, name)), lab: l, namespace: l.namespace(name)}
	var err error
	if n.IP, n.port, err = l.plugIn(n.namespace, segment); err != nil {
		t.Fatal(err)
	}
	l.nodes = append(l.nodes, n)
	n.LayToolbox(t)
	return n
}

// LayToolbox puts the archive of the toolbox image where a node imports it from.
func (n *Node) LayToolbox(t *testing.T) {
	t.Helper()
	image, err := n.lab.Release.Image(release.ImageToolbox, "")
	if err != nil {
		t.Fatal(err)
	}
	n.LayImages(t, "toolbox", image.Refs...)
}

// LayImages puts an archive of images of the release where a node imports it from.
func (n *Node) LayImages(t *testing.T, name string, refs ...string) {
	t.Helper()
	if err := n.layImages(name, refs); err != nil {
		t.Fatalf("lay image archive: %v", err)
	}
}

// Release is what the node runs.
func (n *Node) Release() *release.Catalogue { return n.lab.Release }

// ImportImages gives images of the release to the node's container runtime, which runs.
func (n *Node) ImportImages(t testing.TB, refs ...string) {
	t.Helper()
	ctr, err := n.lab.Release.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(n.lab.Release.Export(writer, refs...)) }()
	load := exec.Command(ctr, "--address", n.Data.ContainerdSocket(), "--namespace", "k8s.io", "images", "import", "--local", "-")
	load.Stdin = reader
	if output, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import images: %v\n%s", err, output)
	}
}

// RemoveImage takes an image away from the node's containerd.
func (n *Node) RemoveImage(t testing.TB, ref string) {
	t.Helper()
	ctr, err := n.lab.Release.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	remove := exec.Command(ctr, "--address", n.Data.ContainerdSocket(), "--namespace", "k8s.io", "images", "remove", "--sync", ref)
	if output, err := remove.CombinedOutput(); err != nil {
		t.Fatalf("remove image: %v\n%s", err, output)
	}
}

func (n *Node) layImages(name string, refs []string) error {
	if err := os.MkdirAll(n.Data.Images(), 0o700); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(n.Data.Images(), name+".tar"))
	if err != nil {
		return err
	}
	return errors.Join(n.lab.Release.Export(archive, refs...), archive.Close())
}

// TokenFile writes a token to a file, for --token-file.
func (l *Lab) TokenFile(t *testing.T, name, token string) string {
	t.Helper()
	file := filepath.Join(l.Dir, name+".token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Token is the cluster's own token, from the server's data directory.
func (n *Node) Token(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(n.Data.Token())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// URL is the API server on the node.
func (n *Node) URL() string { return "https://" + n.IP + ":6443" }

// Start runs `k8shost server` or `k8shost agent` on the node and returns when it is ready.
func (n *Node) Start(t *testing.T, role string, flags ...string) {
	t.Helper()
	n.Launch(t, role, flags...)
	n.AwaitReady(t)
}

// Restart starts the node as before, with further flags.
func (n *Node) Restart(t *testing.T, flags ...string) {
	t.Helper()
	n.Relaunch(t, flags...)
	n.AwaitReady(t)
}

// Relaunch is Restart without waiting.
func (n *Node) Relaunch(t *testing.T, flags ...string) {
	t.Helper()
	n.Launch(t, n.role, append(slices.Clone(n.flags), flags...)...)
}

// Launch is Start without waiting.
func (n *Node) Launch(t *testing.T, role string, flags ...string) {
	t.Helper()
	if n.process != nil {
		t.Fatalf("%s runs already", n.Name)
	}
	n.role, n.flags = role, flags
	// Whoever waits for this start must not take the sign of the last one for it.
	if err := n.Data.ClearReady(); err != nil {
		t.Fatal(err)
	}
	output, err := os.OpenFile(n.outputFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	cmd := n.command(append([]string{role, "--data-dir", n.Data.Path(), "--node-name", n.Name}, flags...)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true,
		// A test that is killed takes its nodes with it.
		Pdeathsig: syscall.SIGKILL,
	}
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal comes when the thread ends that started the process: it must wait with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", n.Name, err)
	}
	n.process = p
}

func (n *Node) outputFile() string { return n.Data.Path() + ".out" }

// AwaitReady waits until the node that was launched does its job.
func (n *Node) AwaitReady(t *testing.T) {
	t.Helper()
	Eventually(t, startPatience, n.Name+" becomes ready", func() error {
		select {
		case <-n.process.done:
			err := n.process.err
			n.process = nil
			t.Fatalf("%s ended while starting: %v\n%s", n.Name, err, tail(n.outputFile(), 20))
		default:
		}
		if !n.Data.Ready() {
			return errors.New("it still starts")
		}
		return nil
	})
}

// PID is the launcher's process.
func (n *Node) PID() int { return n.process.pid }

// Stop ends the launcher in order, as a service manager does.
func (n *Node) Stop(t *testing.T) {
	t.Helper()
	if err := n.end(t, syscall.SIGTERM); err != nil {
		t.Fatalf("%s did not stop cleanly: %v\n%s", n.Name, err, tail(n.outputFile(), 20))
	}
}

// Kill ends the launcher without a chance to do anything.
func (n *Node) Kill(t *testing.T) {
	t.Helper()
	_ = n.end(t, syscall.SIGKILL) // that is how it ends
}

func (n *Node) end(t *testing.T, signal syscall.Signal) error {
	t.Helper()
	p := n.process
	if p == nil {
		t.Fatalf("%s does not run", n.Name)
	}
	n.process = nil
	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopPatience):
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("it had not ended %s after %s", stopPatience, signal)
	}
}

// Purge takes the node down with all its data, and fails the test if anything of it is left on the host.
func (n *Node) Purge(t testing.TB) {
	if n.purged {
		return
	}
	n.purged = true
	if used, err := n.Data.Exists(); err == nil && !used {
		return // no node was ever started there
	}
	// The launcher runs still: `down` has to stop it.
	output, err := n.run(stopPatience+time.Minute, "", "down", "--data-dir", n.Data.Path(), "--purge")
	if err != nil {
		t.Errorf("take %s down: %v\n%s", n.Name, err, output)
	}
	if p := n.process; p != nil {
		n.process = nil
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // no news if `down` did its job
		<-p.done
	}
	if left := n.leftovers(); len(left) > 0 {
		t.Errorf("`k8shost down --purge` left of %s:\n  %s\nIt said:\n%s", n.Name, strings.Join(left, "\n  "), output)
	}
}
