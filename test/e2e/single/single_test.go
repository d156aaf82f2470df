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
	l := lab.New(t)
	s := &scenario{lab: l, server: l.Node(t, "server")}
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

// TestUp is the same server as a service.
func TestUp(t *testing.T) {
	server := lab.New(t).Node(t, "server")
	lab.Step(t, "up tells why the server does not start", func(t *testing.T) {
		listener, err := server.Listen("127.0.0.1:10259")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		output := server.Refuses(t, "up", "--node-name", server.Name)
		if err := contains(output, "port 10259"); err != nil {
			t.Error(err)
		}
	})
	lab.Step(t, "up starts a server that stays, and returns when its node is Ready", func(t *testing.T) {
		output := server.Run(t, "up", "--node-name", server.Name)
		if err := contains(output, "The cluster is up"); err != nil {
			t.Error(err)
		}
		ready := server.Kubectl(t, "get", "node", server.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		expect(t, "the node's Ready", ready, "True")
		if err := contains(server.Run(t, "up", "--node-name", server.Name), "runs already"); err != nil {
			t.Error(err)
		}
	})
	lab.Step(t, "down stops it, and up brings it back with its data", func(t *testing.T) {
		server.Kubectl(t, "create", "configmap", "kept")
		server.Run(t, "down")
		if _, running := server.Data.Launcher(); running {
			t.Error("the server runs after down")
		}
		server.Run(t, "up", "--node-name", server.Name)
		server.Kubectl(t, "get", "configmap", "kept")
	})
}

type scenario struct {
	lab    *lab.Lab
	server *lab.Node
}

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
	versions := s.server.Run(t, "version")
	for _, want := range append(s.lab.Release.Versions(), "etcd v3.", "containerd v2.", "runc v1.") {
		if !strings.Contains(versions, want) {
			t.Errorf("version does not tell of %s:\n%s", want, versions)
		}
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
