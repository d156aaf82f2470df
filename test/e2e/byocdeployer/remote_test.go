//go:build e2e

package byocdeployer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer/pods"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

const token = "pcd_EXAMPLEEXAMPLEEXAMPLE"

// program is a deployer as a customer runs it.
type program struct {
	*exec.Cmd
	work   string
	output *bytes.Buffer
	ended  chan error
}

// start runs `cloudd deployer` with a token.
func (l *lab) start(t *testing.T, name, token string) *program {
	t.Helper()
	p := l.prepare(t, name, token)
	must(t, p.begin())
	return p
}

// prepare is start up to its begin.
func (l *lab) prepare(t *testing.T, name, token string) *program {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string][]byte{"token": []byte(token), "ca.crt": l.ca} {
		must(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
	}
	p := &program{work: filepath.Join(dir, "work"), output: new(bytes.Buffer), ended: make(chan error, 1)}
	p.Cmd = exec.CommandContext(t.Context(), filepath.Join(l.release, "bin", "cloudd"), "deployer", "--server="+l.server.URL, "--account=team/prod",
		"--token-file="+filepath.Join(dir, "token"), "--ca-file="+filepath.Join(dir, "ca.crt"), "--name="+name, "--poll=500ms",
		"--release-dir="+l.release, "--work-dir="+p.work)
	p.Stderr = p.output
	p.Env = []string{"PATH=" + os.Getenv("PATH")}
	return p
}

// begin runs it, until its test has ended.
func (p *program) begin() error {
	if err := p.Start(); err != nil {
		return err
	}
	go func() { p.ended <- p.Wait() }()
	return nil
}

// stop ends it, and returns what it has logged.
func (p *program) stop(t *testing.T, signal syscall.Signal) string {
	t.Helper()
	must(t, p.Process.Signal(signal))
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	return p.output.String()
}

// remotely leaves the work to remote deployers.
func (l *lab) remotely() {
	l.account.Spec.Deployer = &v1alpha1.AccountDeployer{Remote: true, Tokens: []v1alpha1.DeployerToken{v1alpha1.HashDeployerToken(token)}}
}

func TestRemoteDeployer(t *testing.T) {
	l := newLab(t)
	l.remotely()
	stranger := l.start(t, "stranger", "pcd_ANOTHER")
	if err := <-stranger.ended; err == nil || !strings.Contains(stranger.output.String(), "this token is not for account team/prod") {
		t.Errorf("a stranger: %v\n%s", err, stranger.output)
	}
	own := l.start(t, "own", token)
	l.life(t)
	log := own.stop(t, syscall.SIGTERM)
	if strings.Contains(log, byoclab.Secret) || strings.Contains(log, token) {
		t.Error("the deployer's log tells secrets")
	}
	if left, err := filepath.Glob(filepath.Join(own.work, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("the deployer leaves %v, %v", left, err)
	}
}

// relieved makes a network by a remote deployer that is killed with -9 at its work. Another one gets the task when the lease has
// run out, takes over what is there, and nothing is made twice. It returns both of them, and what was put out.
func (l *lab) relieved(t *testing.T) (first, second *program, made map[string]string) {
	t.Helper()
	l.remotely()
	first, second = l.start(t, "first", token), l.prepare(t, "second", token)
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for l.stub.Created()["networks"] == 0 && t.Context().Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}
		_ = first.Process.Kill() // the test's end may be faster
		<-first.ended
		l.later.Add(int64(pods.LeaseDuration))
		if err := second.begin(); err != nil {
			t.Error(err)
		}
	}()
	made = l.run(v1alpha1.OperationCreate, network())
	<-begun
	for kind, count := range l.stub.Created() {
		if count != 1 {
			t.Errorf("%d %s were made", count, kind)
		}
	}
	if log := l.log.String(); !strings.Contains(log, "deployer=first") || !strings.Contains(log, "attempt=2 deployer=second") {
		t.Error("it was not done by one after the other")
	}
	return first, second, made
}

func TestARemoteDeployerIsKilled(t *testing.T) {
	l := newLab(t)
	l.relieved(t)
	l.run(v1alpha1.OperationDelete, network())
	if left := l.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}
