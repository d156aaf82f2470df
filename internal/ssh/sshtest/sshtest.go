// Package sshtest gives tests hosts that answer SSH. Each is OpenSSH's real server in namespaces of its own: processes,
// network and mounts, above a copy of the machine's file system. So whatever a test does to a host, the machine and the
// other hosts do not see it. Between a test and its host may be a Proxy, which does to connections what networks do.
package sshtest

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

//go:embed host.sh
var hostScript string

// Host is a host that answers SSH.
type Host struct {
	// Address and Port of its SSH server.
	Address string
	Port    int
	// HostKey is its public key, and Key a private one in PEM that opens it.
	HostKey string
	Key     []byte

	tb       testing.TB
	dir      string
	init     *exec.Cmd
	ended    chan struct{} // is closed when init has
	pid      int
	listener net.Listener
	servers  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

const sshdConfig = `HostKey %[1]s/host_key
AuthorizedKeysFile %[1]s/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
LogLevel VERBOSE
%[2]s
`

// Start starts a host, which ends with the test. Options are lines of sshd_config.
func Start(tb testing.TB, options ...string) *Host {
	tb.Helper()
	return start(tb, []string{"--net"}, options)
}

// StartBastion starts a host that shares the machine's network, so that it can reach other hosts.
func StartBastion(tb testing.TB, options ...string) *Host {
	tb.Helper()
	return start(tb, nil, options)
}

func start(tb testing.TB, namespaces, options []string) *Host {
	tb.Helper()
	// Not the test's own directory: that may lie below one which hosts have a copy of.
	dir, err := os.MkdirTemp("/tmp", "sshtest-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &Host{tb: tb, dir: dir, Address: "127.0.0.1", conns: map[net.Conn]struct{}{}}
	h.Key = h.NewKey("authorized_keys")
	h.RenewHostKey()
	h.write("sshd_config", []byte(fmt.Sprintf(sshdConfig, dir, strings.Join(options, "\n"))), 0o600)
	h.boot(namespaces)
	h.listen("127.0.0.1:0")
	tb.Cleanup(h.end)
	return h
}

func (h *Host) write(name string, content []byte, mode os.FileMode) {
	h.tb.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), content, mode); err != nil {
		h.tb.Fatal(err)
	}
}

// NewKey makes a private key; its public part replaces the content of a file in the host's own directory.
func (h *Host) NewKey(file string) []byte {
	h.tb.Helper()
	private, public := generate(h.tb)
	h.write(file, []byte(public+"\n"), 0o644)
	return private
}

// RenewHostKey gives the host another key, as a new installation does.
func (h *Host) RenewHostKey() {
	h.tb.Helper()
	private, public := generate(h.tb)
	h.write("host_key", private, 0o600)
	h.HostKey = public
}

func generate(tb testing.TB) (private []byte, public string) {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// boot starts the host's first process.
func (h *Host) boot(namespaces []string) {
	h.tb.Helper()
	layers := filepath.Join(h.dir, "layers")
	if err := os.MkdirAll(layers, 0o700); err != nil {
		h.tb.Fatal(err)
	}
	if err := os.Chmod(h.dir, 0o755); err != nil { //nolint:gosec // Users of the host read their authorized_keys there.
		h.tb.Fatal(err)
	}
	words := append(namespaces, "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", hostScript, "sh", layers)
	h.init = exec.Command("unshare", words...)
	h.init.Stderr = os.Stderr
	h.init.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := h.init.StdoutPipe()
	if err == nil {
		err = h.stay(h.init)
	}
	if err != nil {
		h.tb.Fatalf("start host: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		h.tb.Fatalf("start host: it said %q: %v", line, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", h.init.Process.Pid))
	if err != nil {
		h.tb.Fatal(err)
	}
	if h.pid, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
		h.tb.Fatalf("find the host's first process: %v", err)
	}
}

func (h *Host) listen(address string) {
	h.tb.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		h.tb.Fatal(err)
	}
	h.listener = listener
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	h.Port, _ = strconv.Atoi(port)
	h.servers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.servers.Go(func() { h.serve(conn) })
		}
	})
}

// serve has sshd deal with a connection, as inetd does.
func (h *Host) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return
	}
	h.mu.Lock()
	h.conns[conn] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, conn)
		h.mu.Unlock()
	}()
	sshd := h.command(context.Background(), "/usr/sbin/sshd", "-i", "-e", "-f", filepath.Join(h.dir, "sshd_config"))
	sshd.Stdin, sshd.Stdout = file, file
	log, err := os.OpenFile(filepath.Join(h.dir, "sshd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = log.Close() }()
	sshd.Stderr = log
	runtime.LockOSThread() // see stay
	defer runtime.UnlockOSThread()
	err = sshd.Start()
	_ = file.Close()
	if err == nil {
		_ = sshd.Wait()
	}
}

// stay starts a process that ends with this one. The signal for that comes when the thread ends which started the process:
// it must not be one that others can end.
func (h *Host) stay(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	h.ended = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(h.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_, _ = cmd.Process.Wait()
		}
	}()
	return <-started
}

// command is a command in the host's namespaces.
func (h *Host) command(ctx context.Context, args ...string) *exec.Cmd {
	words := append([]string{"--target", strconv.Itoa(h.pid), "--mount", "--net", "--pid", "--"}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", words...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Do runs a shell script on the host, behind SSH's back, and returns what it printed. A failure fails the test.
func (h *Host) Do(script string) string {
	h.tb.Helper()
	out, err := h.Try(script)
	if err != nil {
		h.tb.Fatalf("%s: %v: %s", script, err, out)
	}
	return out
}

// Try is Do, for scripts that may fail.
func (h *Host) Try(script string) (string, error) {
	runtime.LockOSThread() // see stay
	defer runtime.UnlockOSThread()
	out, err := h.command(context.Background(), "sh", "-c", script).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Network leads to the host's network namespace, for as long as the host runs.
func (h *Host) Network() string { return fmt.Sprintf("/proc/%d/ns/net", h.pid) }

// Listen has the host's SSH server listen in the host's own network too. Address and Port do not change.
func (h *Host) Listen(port int) {
	h.tb.Helper()
	h.Do(fmt.Sprintf("/usr/sbin/sshd -f %s -E %s -p %d", filepath.Join(h.dir, "sshd_config"), filepath.Join(h.dir, "sshd.log"), port))
}

// AddUser makes a user who can log in with the host's key, and may become root by what the line of sudoers says.
func (h *Host) AddUser(name, sudoers string) {
	h.tb.Helper()
	h.Do("useradd --create-home --shell /bin/sh " + name + " && sed -i 's/^" + name + ":!/" + name + ":*/' /etc/shadow")
	if sudoers != "" {
		h.Do("printf '%s\\n' '" + sudoers + "' >/etc/sudoers.d/" + name + " && chmod 440 /etc/sudoers.d/" + name)
	}
}

// Silence lets nobody connect any more, and ends the connections that there are.
func (h *Host) Silence() {
	_ = h.listener.Close()
	h.Disconnect()
}

// Disconnect ends the connections that there are.
func (h *Host) Disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.conns {
		// The server has the socket too: what counts is that it is shut down, not that it is closed here.
		if tcp, ok := conn.(*net.TCPConn); ok {
			_, _ = tcp.CloseRead(), tcp.CloseWrite()
		}
	}
}

// Answer lets the host be connected to again.
func (h *Host) Answer() {
	h.tb.Helper()
	h.listen(net.JoinHostPort(h.Address, strconv.Itoa(h.Port)))
}

// Log is what the SSH server said.
func (h *Host) Log() string {
	content, _ := os.ReadFile(filepath.Join(h.dir, "sshd.log"))
	return string(content)
}

func (h *Host) end() {
	_ = h.listener.Close()
	_ = h.init.Process.Kill() // and with it every process of the host
	<-h.ended
	h.Disconnect()
	h.servers.Wait()
	if h.tb.Failed() {
		log := h.Log()
		h.tb.Logf("the SSH server said:\n%s", log[max(0, len(log)-4000):])
	}
}

// reset ends a connection rudely, as a firewall or a reboot does.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
