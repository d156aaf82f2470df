package lab

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// rotationPatience is for three times that API servers look for new keys, which they do once a minute.
const rotationPatience = 8 * time.Minute

// WantSecretsKey makes sure that all Secrets in the node's etcd are encrypted with one key.
func (n *Node) WantSecretsKey(t *testing.T, want string) {
	t.Helper()
	if counts := n.secretsByKey(t); len(counts) != 1 || counts[want] == 0 {
		t.Errorf("Secrets by key: %v, want %s alone", counts, want)
	}
}

func (n *Node) secretsByKey(t *testing.T) map[string]int {
	t.Helper()
	stored, err := n.Etcd(t).Get(t.Context(), "/registry/secrets/", clientv3.WithPrefix())
	if err != nil || len(stored.Kvs) == 0 {
		t.Fatalf("read the stored Secrets: %v, %d found", err, len(stored.Kvs))
	}
	counts := map[string]int{}
	for _, pair := range stored.Kvs {
		name := "none"
		if rest, encrypted := bytes.CutPrefix(pair.Value, []byte("k8s:enc:secretbox:v1:")); encrypted {
			key, _, _ := bytes.Cut(rest, []byte(":"))
			name = string(key)
		}
		counts[name]++
	}
	return counts
}

// RotateSecretsKey rotates the key of Secrets from this node, killing the command once on the way. What the datastore holds
// afterwards is for the caller to look at.
func (n *Node) RotateSecretsKey(t *testing.T, want string) {
	t.Helper()
	if output, err := n.run(5*time.Second, "", "secrets-encrypt", "rotate-keys"); err == nil {
		t.Fatalf("a rotation was done before API servers could look for its keys:\n%s", output)
	}
	if output := n.Run(t, "secrets-encrypt", "status"); !strings.Contains(output, want) {
		t.Errorf("the new key is not there:\n%s", output)
	}
	began := time.Now()
	output, err := n.run(rotationPatience, "", "secrets-encrypt", "rotate-keys", "-o", "json")
	if err != nil {
		t.Fatalf("rotate: %v\n%s", err, output)
	}
	var result struct {
		Key     string
		Secrets int
		Servers []string
		Resumed bool
	}
	if err := json.Unmarshal([]byte(output[strings.Index(output, "\n{")+1:]), &result); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	if result.Key != want || result.Secrets == 0 || !result.Resumed {
		t.Errorf("rotated: %+v", result)
	}
	var status struct {
		Stage   string
		Keys    []string
		Servers []struct{ Loaded bool }
	}
	if err := json.Unmarshal([]byte(n.Run(t, "secrets-encrypt", "status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Stage != "Settled" || len(status.Keys) != 1 || len(status.Servers) != len(result.Servers) {
		t.Errorf("afterwards: %+v", status)
	}
	t.Logf("%d Secrets encrypted anew, on %d servers, in %.0f s", result.Secrets, len(result.Servers), time.Since(began).Seconds())
}
