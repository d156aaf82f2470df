package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// parrot is an instance that knows few commands. Without one it repeats what is typed.
type parrot struct{ name, term string }

func (p parrot) ExecInContainer(_ context.Context, _, _, _ string, command []string, in io.Reader, out, _ io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if tty {
		size := <-resize
		fmt.Fprintf(out, "a %s of %dx%d\n", p.term, size.Width, size.Height)
	}
	switch {
	case len(command) > 0 && command[0] == "echo":
		fmt.Fprintf(out, "%s says %q\n", p.name, command[1:])
	case len(command) > 0 && command[0] == "fail":
		code, err := strconv.Atoi(command[1])
		if err != nil {
			return err
		}
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	default:
		fmt.Fprintf(out, "%s heard ", p.name)
		_, err := io.Copy(out, in)
		return err
	}
	return nil
}

// attach serves terminals beside identities.
func attach(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	name := strings.Join(parts[5:len(parts)-1], "/")
	p := parrot{name: name, term: r.FormValue("term")}
	remotecommand.ServeExec(w, r, p, "", "", "", r.Form["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
}

func TestATerminalKnowsItsKindAndSize(t *testing.T) {
	w := newWorld(t)
	raw := 0
	w.terminal = session.Terminal{
		In: true, Out: true, Width: func() int { return 100 },
		Raw: func() (func(), error) { raw++; return func() { raw += 10 }, nil },
		Sizes: func(context.Context) <-chan session.Size {
			sizes := make(chan session.Size, 1)
			sizes <- session.Size{Width: 132, Height: 43}
			close(sizes)
			return sizes
		},
	}
	w.env["TERM"] = "vt220"
	have := w.withInput("hello", "instance", "console", "dev-cluster-workers-a")
	if have.code != 0 || have.out != "a vt220 of 132x43\nweb/instances/dev-cluster-workers-a heard hello" || raw != 11 {
		t.Errorf("%+v, %d", have, raw)
	}
	if have := w.run("k8s", "ssh", "dev-cluster", "dev-cluster-workers-a", "--tty", "--", "fail", "3"); have.code != 3 || raw != 22 {
		t.Errorf("%+v, %d", have, raw)
	}
}

// privateKey is a new one in a file.
func privateKey(t *testing.T, dir, passphrase string) (path, content string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "id"+passphrase)
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, string(pem.EncodeToMemory(block))
}

func TestAPrivateKeyIsStoredAndReplaced(t *testing.T) {
	w := newWorld(t)
	path, content := privateKey(t, w.dir, "")
	secret := func() corev1.Secret {
		t.Helper()
		var secret corev1.Secret
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "yard-ssh-key"}, &secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	if have := w.run("account", "create", "yard", "--provider", "ssh", "--host", "10.0.0.7", "--trust-on-first-use", "--key-file", path); have.code != 0 || strings.Contains(have.err+have.out, "PRIVATE") {
		t.Fatalf("%+v", have)
	}
	var account v1alpha1.Account
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "yard"}, &account); err != nil || account.Spec.Credentials.Name != "yard-ssh-key" {
		t.Fatalf("%+v: %v", account, err)
	}
	made := secret()
	if string(made.Data[corev1.SSHAuthPrivateKey]) != content || made.Type != corev1.SecretTypeSSHAuth {
		t.Errorf("%+v", made)
	}
	_, other := privateKey(t, w.dir, "")
	if have := w.withInput(other, "account", "set-key", "yard", "--key-file", "-"); have.code != 0 {
		t.Fatalf("%+v", have)
	}
	if now := secret(); string(now.Data[corev1.SSHAuthPrivateKey]) != other {
		t.Error("the key is the old one")
	}
	locked, _ := privateKey(t, w.dir, "secret")
	if have := w.run("account", "set-key", "yard", "--key-file", locked); have.code != 2 || !strings.Contains(have.err, "passphrase") || !strings.Contains(have.err, "ssh-keygen -p") {
		t.Errorf("%+v", have)
	}
}

func TestAnAccountShowsWhoHasItsHosts(t *testing.T) {
	w := newWorld(t)
	account := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "yard", CreationTimestamp: metav1.NewTime(noon)},
		Spec:       v1alpha1.AccountSpec{Provider: v1alpha1.ProviderSSH},
		Status: v1alpha1.AccountStatus{Phase: v1alpha1.PhaseRunning, Hosts: []v1alpha1.SSHHostStatus{
			{Address: "10.0.0.5", Port: 22, Cluster: "dev", Machine: "dev-workers-x", HostKey: "SHA256:abc"},
			{Address: "10.0.0.6", Port: 2222, Problem: "host 10.0.0.6:2222: connection refused"},
		}},
	}
	if err := w.api.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	have := w.run("account", "get", "yard")
	for _, want := range []string{
		"HOST           CLUSTER  INSTANCE       HOST KEY    PROBLEM", "10.0.0.5       dev      dev-workers-x  SHA256:abc",
		"10.0.0.6:2222  -        -              -           host 10.0.0.6:2222: connection refused",
	} {
		if !strings.Contains(have.out, want) {
			t.Errorf("%q is not in\n%s", want, have.out)
		}
	}
}

func TestAClustersKeyIsReplacedOnDemand(t *testing.T) {
	w := newWorld(t)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "metal"}, Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterKubeadm}}
	if err := w.api.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if have := w.run("k8s", "rotate-ssh-key", "metal"); have.code != 0 {
		t.Fatalf("%+v", have)
	}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil || cluster.Annotations[v1alpha1.AnnotationRotateSSHKey] == "" {
		t.Errorf("%+v: %v", cluster.Annotations, err)
	}
}
