//go:build e2e

// Package snapshot is the scenario of a cluster that is lost and brought back: first its database, then everything but
// a snapshot and the token. What was there when the snapshot was taken is there again, what came later is not, and
// nodes and pods go on.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestSnapshot(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l, server: l.Node(t, "server"), worker: l.Node(t, "worker"), copy: filepath.Join(l.Dir, "first.snapshot")}
	lab.Step(t, "a cluster with a node and objects", s.begin)
	lab.Step(t, "the key of Secrets is rotated", s.rotate)
	lab.Step(t, "a snapshot is saved, listed and kept elsewhere", s.save)
	lab.Step(t, "a damaged snapshot is refused", s.refuseDamaged)
	lab.Step(t, "the database is lost and restored", s.restoreDatabase)
	lab.Step(t, "snapshots are taken on schedule, and deleted", s.schedule)
	lab.Step(t, "all is lost: a wrong token opens nothing", s.refuseWrongToken)
	lab.Step(t, "all is lost, and restored from snapshot and token", s.restoreAll)
}

type scenario struct {
	lab            *lab.Lab
	server, worker *lab.Node
	copy           string // of the snapshot, outside of the data directory
	token          string // of the cluster
}

func (s *scenario) begin(t *testing.T) {
	s.server.Start(t, "server")
	s.token = s.server.Token(t)
	s.worker.Start(t, "agent", "--server", s.server.URL(), "--token-file", s.lab.TokenFile(t, "own", s.token))
	s.server.Kubectl(t, "create", "configmap", "before", "--from-literal=word=kept")
	s.server.Kubectl(t, "create", "secret", "generic", "before", "--from-literal=word=hidden")
	s.server.Kubectl(t, "run", "guest", "--image="+lab.Toolbox, "--image-pull-policy=Never",
		`--overrides={"spec":{"nodeName":"worker"}}`, "--", "sleep", "infinity")
	s.server.AwaitPods(t, "run=guest")
}

// rotate comes before the snapshot, so that the restored cluster shows that its keys were in there.
func (s *scenario) rotate(t *testing.T) {
	s.server.WantSecretsKey(t, "key1")
	s.server.RotateSecretsKey(t, "key2")
	s.server.WantSecretsKey(t, "key2")
}

func (s *scenario) save(t *testing.T) {
	var saved struct {
		Name, Path string
		Size       int64
	}
	output := s.server.Run(t, "etcd-snapshot", "save", "--name", "first", "-o", "json")
	if err := json.Unmarshal([]byte(output), &saved); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	content, err := os.ReadFile(saved.Path)
	if err != nil || int64(len(content)) != saved.Size || saved.Name != "first" {
		t.Fatalf("the snapshot is not as it was described: %v: %+v", err, saved)
	}
	if list := s.server.Run(t, "etcd-snapshot", "ls"); !strings.Contains(list, saved.Path) {
		t.Errorf("the snapshot is not listed:\n%s", list)
	}
	if output, err := s.server.TryRun("etcd-snapshot", "save", "--name", "first"); err == nil || !strings.Contains(output, "exists already") {
		t.Errorf("a second snapshot of the same name: %v: %s", err, output)
	}
	if err := os.WriteFile(s.copy, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.server.Kubectl(t, "create", "configmap", "after")
	s.server.Kubectl(t, "delete", "secret", "before")
}

// restore runs the server once, to put the snapshot in place.
func (s *scenario) restore(snapshot string, flags ...string) (string, error) {
	return s.server.TryRun(append([]string{"server", "--node-name", s.server.Name,
		"--cluster-reset", "--cluster-reset-restore-path", snapshot}, flags...)...)
}

func (s *scenario) refuseDamaged(t *testing.T) {
	s.server.Stop(t)
	intact := s.server.ReadTree(t)
	content, err := os.ReadFile(s.copy)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), content...)
	flipped[len(flipped)/2] ^= 1
	for name, damaged := range map[string][]byte{"cut short": content[:len(content)-1000], "damaged": flipped} {
		file := filepath.Join(s.lab.Dir, "damaged.snapshot")
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := s.restore(file)
		if err == nil || !strings.Contains(output, name) {
			t.Errorf("of a snapshot that is %s the server says: %v: %s", name, err, output)
		}
	}
	if changed := intact.Differences(s.server.ReadTree(t)); len(changed) > 0 {
		t.Errorf("a refused restore changed %v", changed)
	}
}

func (s *scenario) restoreDatabase(t *testing.T) {
	s.server.Restart(t)
	s.server.Kill(t)
	if err := os.RemoveAll(s.server.Data.Path("server", "db")); err != nil {
		t.Fatal(err)
	}
	if output, err := s.restore(s.copy); err != nil {
		t.Fatalf("restore: %v\n%s", err, output)
	}
	s.server.Restart(t, "--etcd-snapshot-schedule-cron", "@every 3s", "--etcd-snapshot-retention", "2")
	s.restored(t)
}

// restored makes sure that the cluster is what it was at the time of the snapshot, and lives.
func (s *scenario) restored(t *testing.T) {
	t.Helper()
	for object, want := range map[string]string{"configmap/before": "kept", "secret/before": "aGlkZGVu"} {
		if got := s.server.Kubectl(t, "get", object, "-o", "jsonpath={.data.word}"); got != want {
			t.Errorf("%s says %q, want %q", object, got, want)
		}
	}
	if output, err := s.server.TryKubectl("get", "configmap", "after"); err == nil || !strings.Contains(output, "NotFound") {
		t.Errorf("what came after the snapshot: %v: %s", err, output)
	}
	s.server.AwaitNodeReady(t, s.server.Name)
	// The agent was told nothing: it finds the cluster that it knows.
	lab.Eventually(t, 2*time.Minute, "the worker reports to the restored cluster", func() error {
		renewed, err := s.server.TryKubectl("get", "lease", "-n", "kube-node-lease", s.worker.Name, "-o", "jsonpath={.spec.renewTime}")
		if err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339Nano, renewed)
		if err == nil && time.Since(at) > 11*time.Second {
			err = errors.New("it was heard of last at " + renewed)
		}
		return err
	})
	for _, node := range []*lab.Node{s.server, s.worker} {
		name := fmt.Sprintf("%s-%d", node.Name, time.Now().Unix())
		s.server.Kubectl(t, "run", name, "--image="+lab.Toolbox, "--image-pull-policy=Never", "--restart=Never",
			`--overrides={"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+node.Name+`"}}}`, "--", "echo", "alive")
		s.server.Kubectl(t, "wait", "pod/"+name, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=110s")
		if got := s.server.Kubectl(t, "logs", name); got != "alive" {
			t.Errorf("a new pod on %s says %q", node.Name, got)
		}
	}
	lab.Eventually(t, time.Minute, "the pod from before is there", func() error {
		_, err := s.server.TryExec("guest", "true")
		return err
	})
}

func (s *scenario) schedule(t *testing.T) {
	scheduled := func() []string {
		var snapshots []struct{ Name string }
		if err := json.Unmarshal([]byte(s.server.Run(t, "etcd-snapshot", "ls", "-o", "json")), &snapshots); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, snapshot := range snapshots {
			if strings.HasPrefix(snapshot.Name, "scheduled-") {
				names = append(names, snapshot.Name)
			}
		}
		return names
	}
	first := scheduled()
	lab.Eventually(t, time.Minute, "snapshots come, and no more than two stay", func() error {
		now := scheduled()
		if len(now) != 2 || len(first) > 0 && now[1] <= first[0] {
			return fmt.Errorf("there are %v", now)
		}
		return nil
	})
	s.server.Run(t, "etcd-snapshot", "save", "--name", "mine")
	s.server.Run(t, "etcd-snapshot", "delete", "mine")
	if list := s.server.Run(t, "etcd-snapshot", "ls"); strings.Contains(list, "mine") {
		t.Errorf("a deleted snapshot is listed:\n%s", list)
	}
	if output, err := s.server.TryRun("etcd-snapshot", "delete", "mine"); err == nil || !strings.Contains(output, `no snapshot "mine"`) {
		t.Errorf("deleting nothing: %v: %s", err, output)
	}
}

func (s *scenario) refuseWrongToken(t *testing.T) {
	s.server.Kill(t)
	s.server.Run(t, "down", "--purge")
	if output, err := s.restore(s.copy); err == nil || !strings.Contains(output, "--token") {
		t.Errorf("without a token: %v: %s", err, output)
	}
	output, err := s.restore(s.copy, "--token-file", s.lab.TokenFile(t, "wrong", s.token+"x"))
	if err == nil || !strings.Contains(output, "wrong password") {
		t.Errorf("with a wrong token: %v: %s", err, output)
	}
	if output, err := s.server.TryRun("etcd-snapshot", "save"); err == nil || !strings.Contains(output, "no server runs") {
		t.Errorf("a snapshot of nothing: %v: %s", err, output)
	}
}

func (s *scenario) restoreAll(t *testing.T) {
	s.server.LayToolbox(t)
	if output, err := s.restore(s.copy, "--token-file", filepath.Join(s.lab.Dir, "own.token")); err != nil {
		t.Fatalf("restore: %v\n%s", err, output)
	}
	s.server.Restart(t)
	s.restored(t)
	if s.server.Token(t) != s.token {
		t.Error("the restored cluster has another token")
	}
}
