//go:build e2e

// Package badinput is the scenario of everything a node is given that it cannot work with: each is answered within
// seconds by an error that says what is wrong, and the data directory is left as it was.
package badinput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestBadInput(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l, server: l.Node(t, "server"), other: l.Node(t, "other"), agent: l.Node(t, "agent"), small: l.Node(t, "small")}
	lab.Step(t, "flags and configuration files", s.settings)
	lab.Step(t, "a taken port", s.takenPort)
	lab.Step(t, "a full disk", s.fullDisk)
	lab.Step(t, "a cluster, for what follows", s.begin)
	lab.Step(t, "a second server on the same data directory", s.secondServer)
	lab.Step(t, "servers that contradict the cluster they join", s.contradict)
	lab.Step(t, "an agent with another cluster's token", s.foreignAgent)
	lab.Step(t, "data directories of other versions", s.otherVersions)
	lab.Step(t, "broken authorities", s.brokenAuthorities)
	lab.Step(t, "after all that the server starts, with its data", s.end)
}

type scenario struct {
	lab                         *lab.Lab
	server, other, agent, small *lab.Node
}

// serve is the command line of a server on a node. The control plane alone is enough here, and sooner there.
func serve(n *lab.Node, flags ...string) []string {
	return append([]string{"server", "--data-dir", n.Data.Path(), "--node-name", n.Name, "--disable-agent"}, flags...)
}

// refuses makes sure that a command fails with an error that says all that is wanted, and that the data of the node
// are what they were.
func refuses(t *testing.T, n *lab.Node, args []string, wants ...string) {
	t.Helper()
	before := n.ReadTree(t)
	output := n.Refuses(t, args...)
	message := output[max(0, strings.LastIndex(output, "k8shost: ")):]
	for _, want := range wants {
		if !strings.Contains(message, want) {
			t.Errorf("%s: the error does not say %q:\n%s", strings.Join(args, " "), want, output)
		}
	}
	if strings.Contains(output, "panic") || strings.Contains(output, "goroutine") {
		t.Errorf("%s: it crashed:\n%s", strings.Join(args, " "), output)
	}
	if changed := before.Differences(n.ReadTree(t)); before["version.json"] != "" && len(changed) > 0 {
		t.Errorf("%s: it changed %v", strings.Join(args, " "), changed)
	}
}

func (s *scenario) settings(t *testing.T) {
	n := s.other
	file := func(name, content string) string {
		path := filepath.Join(s.lab.Dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := filepath.Join(s.lab.Dir, strings.Repeat("long", 25))
	hash := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		flags []string
		wants []string
	}{
		{[]string{"--cluster-inti"}, []string{"unknown flag --cluster-inti", "did you mean --cluster-init?"}},
		{[]string{"--https-listen-port", "many"}, []string{"--https-listen-port", `"many" is not a whole number`}},
		{[]string{"--cluster-init", "--server", "https://192.0.2.1:6443", "--token", "secret-word"},
			[]string{"--cluster-init and --server contradict each other"}},
		{[]string{"--datastore", "sqlite", "--cluster-init"}, []string{"--cluster-init and --datastore sqlite contradict each other"}},
		{[]string{"--kubernetes-version", "v1.99"}, []string{"--kubernetes-version", "v1.99", s.lab.Release.Versions()[0]}},
		{[]string{"--service-cidr", "10.42.128.0/20"}, []string{"--cluster-cidr", "--service-cidr", "overlap"}},
		{[]string{"--data-dir", long}, []string{"--data-dir", "too long"}},
		{[]string{"--config", filepath.Join(s.lab.Dir, "nowhere.yaml")}, []string{"--config", "nowhere.yaml", "no such file"}},
		{[]string{"--config", s.lab.Dir}, []string{"--config", "is a directory"}},
		{[]string{"--config", file("torn.yaml", "tls-san: [a, b\nnode-name: x\n")}, []string{"torn.yaml", "line"}},
		{[]string{"--config", file("typo.yaml", "cluster-init: true\ntls-sam: a\n")}, []string{"typo.yaml:2", `unknown key "tls-sam"`, "did you mean tls-san?"}},
		{[]string{"--config", file("kind.yaml", "https-listen-port: [1, 2]\n")}, []string{"kind.yaml:1", "takes a single value"}},
		{[]string{"--server", "https://192.0.2.1:6443", "--token-file", file("cut.token", "K10"+hash[:40])}, []string{"cut short", "40 of the 64"}},
		{[]string{"--server", "https://192.0.2.1:6443", "--token-file", file("half.token", "K10"+hash+"::server:")}, []string{"token"}},
		{[]string{"--server", "https://192.0.2.1:6443", "--token-file", file("bare.token", "secret-word")}, []string{"lacks the hash"}},
		{[]string{"--server", s.server.URL(), "--token-file", file("nobody.token", "K10"+hash+"::server:secret-word")},
			[]string{"connection refused", s.server.IP}},
		{[]string{"--server", n.URL(), "--token-file", file("self.token", "K10"+hash+"::server:secret-word")},
			[]string{"is this server itself"}},
		{[]string{"--cluster-reset"}, []string{"--cluster-reset", "no etcd data", "--cluster-reset-restore-path"}},
	} {
		refuses(t, n, serve(n, c.flags...), c.wants...)
	}
	refuses(t, n, []string{"agent", "--data-dir", n.Data.Path()}, "--server is missing")
}

func (s *scenario) takenPort(t *testing.T) {
	listener, err := s.other.Listen(":6443")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	refuses(t, s.other, serve(s.other), "port 6443", "--https-listen-port")
}

// fullDisk tries a disk that is too small for a node, and one on which not a byte is left.
func (s *scenario) fullDisk(t *testing.T) {
	dir := s.small.Data.Path()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	refuses(t, s.small, serve(s.small), "disk", "MiB free of 8 MiB", "--data-dir")
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 64<<10))
	}
	_ = ballast.Close()
	refuses(t, s.small, serve(s.small), "disk", "0 MiB free")
	s.small.Run(t, "down", "--purge")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a data directory that is a mount point still holds %v (%v)", left, err)
	}
}

func (s *scenario) begin(t *testing.T) {
	s.server.Start(t, "server", "--disable-agent")
	s.server.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=yes")
	s.agent.Start(t, "agent", "--server", s.server.URL(), "--token-file", s.lab.TokenFile(t, "own", s.server.Token(t)))
}

func (s *scenario) secondServer(t *testing.T) {
	// The running server writes its data all the time: whether it goes on is the question here.
	output := s.server.Refuses(t, serve(s.server)...)
	for _, want := range []string{"in use by another k8shost", fmt.Sprintf("process %d", s.server.PID())} {
		if !strings.Contains(output, want) {
			t.Errorf("the error does not say %q:\n%s", want, output)
		}
	}
	if !s.server.Data.Ready() {
		t.Error("the first server is no longer marked as ready")
	}
	s.server.Kubectl(t, "get", "configmap", "kept")
}

func (s *scenario) contradict(t *testing.T) {
	own := s.lab.TokenFile(t, "own", s.server.Token(t))
	join := []string{"--server", s.server.URL(), "--token-file", own}
	// Two clusters of one token: the second would have an authority of its own, which the token does not name. That must
	// not leave an authority behind which stands in the way of joining.
	refuses(t, s.other, serve(s.other, "--cluster-init", "--token-file", own), "--token belongs to another cluster")
	refuses(t, s.other, serve(s.other, append(join, "--service-cidr", "10.99.0.0/16")...),
		"contradict the cluster", "--service-cidr is 10.99.0.0/16 here and 10.43.0.0/16 in the cluster")
	refuses(t, s.other, serve(s.other, append(join, "--cluster-domain", "example.test")...),
		"--cluster-domain is example.test here and cluster.local in the cluster")
	members, err := s.server.Etcd(t).MemberList(t.Context())
	if err != nil || len(members.Members) != 1 {
		t.Errorf("a refused server is a member of etcd: %v (%v)", members, err)
	}
	// An agents' token does not make a server.
	made := s.lab.TokenFile(t, "made", strings.TrimSpace(s.server.Run(t, "token", "create")))
	s.other.Run(t, "down", "--purge")
	refuses(t, s.other, serve(s.other, "--server", s.server.URL(), "--token-file", made), "joins agents only")
}

func (s *scenario) foreignAgent(t *testing.T) {
	s.agent.Stop(t)
	foreign := s.lab.TokenFile(t, "foreign", "K10"+strings.Repeat("0123456789abcdef", 4)+"::server:secret-word")
	before := s.agent.ReadTree(t)
	output := s.agent.Refuses(t, "agent", "--data-dir", s.agent.Data.Path(), "--server", s.server.URL(), "--token-file", foreign)
	if !strings.Contains(output, "belongs to another cluster") {
		t.Errorf("the agent says:\n%s", output)
	}
	if changed := before.Differences(s.agent.ReadTree(t)); len(changed) > 0 {
		t.Errorf("it changed %v", changed)
	}
	s.agent.Restart(t)
}
