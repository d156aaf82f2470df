package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// saveLogs keeps what the nodes said, and where the test has failed, shows the most telling part of it.
func (l *Lab) saveLogs(t *testing.T) {
	dir := filepath.Join(l.repo, "_output", "e2e", t.Name())
	if err := os.RemoveAll(dir); err != nil {
		t.Log(err)
	}
	for _, node := range l.nodes {
		place := filepath.Join(dir, node.Name)
		if err := os.MkdirAll(place, 0o700); err != nil {
			t.Log(err)
			continue
		}
		logs, _ := filepath.Glob(filepath.Join(node.Data.Logs(), "*.log"))
		for _, log := range append(logs, node.outputFile()) {
			if err := copyFile(filepath.Join(place, filepath.Base(log)), log); err != nil && !os.IsNotExist(err) {
				t.Log(err)
			}
		}
		if t.Failed() && !node.purged && node.role != "" {
			t.Logf("the last words of %s:\n%s", node.Name, tail(node.outputFile(), 15))
		}
	}
	if t.Failed() {
		l.describeCluster(t, dir)
		t.Logf("all logs are in %s", dir)
	}
}

// describeCluster asks the first server that answers what it thinks of its cluster.
func (l *Lab) describeCluster(t *testing.T, dir string) {
	for _, node := range l.nodes {
		if node.role != "server" || node.purged {
			continue
		}
		overview, err := node.run(10*time.Second, "", node.kubectl([]string{"get", "nodes,pods", "-A", "-o", "wide"})...)
		if err != nil {
			continue
		}
		t.Logf("the cluster according to %s:\n%s", node.Name, overview)
		for file, args := range map[string][]string{
			"events.txt": {"get", "events", "-A", "--sort-by=.lastTimestamp"},
			"pods.txt":   {"describe", "pods", "-A"},
			"nodes.txt":  {"describe", "nodes"},
		} {
			text, _ := node.run(10*time.Second, "", node.kubectl(args)...)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Log(err)
			}
		}
		return
	}
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	_, err = io.Copy(target, source)
	return err
}

// tail is the last lines of a file.
func tail(file string, lines int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Output is what the node's launcher has printed so far.
func (n *Node) Output() string {
	content, err := os.ReadFile(n.outputFile())
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(content)
}
