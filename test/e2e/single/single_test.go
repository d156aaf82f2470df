//go:build e2e

// Package single is the scenario of one server that is the whole cluster: everything a user does with a workload, what
// the server promises about secrets and the audit log, and everything that may befall its processes.
package single

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestSingle(t *testing.T) {
	s := &scenario{lab.New(t).Node(t, "server")}
	lab.Step(t, "the server starts and its node is Ready", s.start)
	lab.Step(t, "a pod from an imported archive runs", s.pods)
	lab.Step(t, "logs, exec and port-forward", s.interact)
	lab.Step(t, "a Deployment rolls out, updates and rolls back", s.deployment)
	lab.Step(t, "services by name, headless, NodePort and hostPort", s.services)
	lab.Step(t, "ConfigMap and Secret mounts", s.mounts)
	lab.Step(t, "secrets are encrypted at rest, changes audited", s.safekeeping)
	lab.Step(t, "check, version and token", s.commands)
	lab.Step(t, "a component that is killed comes back", s.killComponents)
	lab.Step(t, "the launcher is killed: pods go on, the next start works", s.killLauncher)
	lab.Step(t, "the node restarts: pods survive, a new name is served", s.restart)
	lab.Step(t, "down leaves nothing behind", s.down)
}

// TestSQLite is the same server on a file instead of etcd.
func TestSQLite(t *testing.T) {
	server := lab.New(t).Node(t, "server")
	lab.Step(t, "the server starts", func(t *testing.T) {
		server.Start(t, "server", "--datastore", "sqlite")
		server.AwaitNodeReady(t, server.Name)
		server.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=yes")
		server.Kubectl(t, "create", "secret", "generic", "hidden", "--from-literal=word=plaintext")
	})
	lab.Step(t, "its objects survive a restart and a kill", func(t *testing.T) {
		server.Stop(t)
		server.Restart(t)
		server.Kill(t)
		server.Restart(t)
		if got := server.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.word}"); got != "yes" {
			t.Errorf("the ConfigMap says %q", got)
		}
		if pid, err := server.ComponentPID("etcd"); err == nil {
			t.Errorf("etcd runs (process %d) though SQLite was asked for", pid)
		}
	})
	lab.Step(t, "a pod runs on it", func(t *testing.T) {
		server.AwaitNodeReady(t, server.Name)
		server.Kubectl(t, "run", "hello", "--image="+lab.Toolbox, "--image-pull-policy=Never", "--restart=Never", "--", "echo", "from sqlite")
		server.Kubectl(t, "wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=100s")
		if got := server.Kubectl(t, "logs", "hello"); got != "from sqlite" {
			t.Errorf("the pod said %q", got)
		}
	})
}

type scenario struct{ server *lab.Node }

func (s *scenario) start(t *testing.T) {
	began := time.Now()
	s.server.Start(t, "server")
	ready := time.Since(began)
	s.server.AwaitNodeReady(t, s.server.Name)
	t.Logf("server ready after %.1f s, node Ready after %.1f s", ready.Seconds(), time.Since(began).Seconds())
	for path, want := range map[string]string{
		`{.metadata.labels.node-role\.kubernetes\.io/control-plane}`: "true",
		`{.status.addresses[?(@.type=="InternalIP")].address}`:       s.server.IP,
		`{.spec.podCIDR}`: "10.42.0.0/24",
	} {
		if got := s.server.Kubectl(t, "get", "node", s.server.Name, "-o", "jsonpath="+path); got != want {
			t.Errorf("the node's %s is %q, want %q", path, got, want)
		}
	}
	runtime := s.server.Kubectl(t, "get", "node", s.server.Name, "-o", "jsonpath={.status.nodeInfo.containerRuntimeVersion}")
	if !strings.HasPrefix(runtime, "containerd://2.") {
		t.Errorf("the node's runtime is %q", runtime)
	}
}

func (s *scenario) commands(t *testing.T) {
	report := s.server.Run(t, "check")
	for _, want := range []string{"overlayfs", "nftables", "cgroups", "LEVEL"} {
		if !strings.Contains(report, want) {
			t.Errorf("check does not tell about %s:\n%s", want, report)
		}
	}
	versions, err := s.server.TryKubectl("version")
	if err != nil || !strings.Contains(versions, "Server Version: v1.") {
		t.Errorf("kubectl version: %v: %s", err, versions)
	}
	s.tokens(t)
}

func (s *scenario) tokens(t *testing.T) {
	made := strings.TrimSpace(s.server.Run(t, "token", "create", "--ttl", "1h", "--description", "for a friend"))
	hash, credential, found := strings.Cut(made, "::")
	id, secret, _ := strings.Cut(credential, ".")
	if !found || len(hash) != len("K10")+64 || len(id) != 6 || len(secret) != 16 {
		t.Fatalf("token create printed something of another form (%d characters)", len(made))
	}
	list := s.server.Run(t, "token", "list")
	if !strings.Contains(list, id) || !strings.Contains(list, "for a friend") {
		t.Errorf("the new token is not listed:\n%s", list)
	}
	if strings.Contains(list, secret) {
		t.Error("the list of tokens holds a secret")
	}
	s.server.Run(t, "token", "delete", id)
	if list := s.server.Run(t, "token", "list"); strings.Contains(list, id) {
		t.Errorf("the deleted token is still listed:\n%s", list)
	}
}

func (s *scenario) down(t *testing.T) {
	s.server.Run(t, "down")
	s.server.Run(t, "down") // again is no error
	if _, err := s.server.TryKubectl("get", "nodes"); err == nil {
		t.Error("the API answers after down")
	}
	s.server.Purge(t)
	output := s.server.Run(t, "down", "--purge")
	if !strings.Contains(output, "nothing to do") {
		t.Errorf("down of nothing says: %s", output)
	}
}

// expect compares what a command printed.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// contains makes an error of a text that lacks something.
func contains(text, want string) error {
	if !strings.Contains(text, want) {
		return fmt.Errorf("%q is not in %q", want, text)
	}
	return nil
}
