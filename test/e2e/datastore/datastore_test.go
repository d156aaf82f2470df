//go:build e2e

// Package datastore is the scenario of datastores that somebody else runs: an etcd, and a PostgreSQL behind kine. Two
// servers share the database; objects outlive a restart; the database's password shows nowhere.
package datastore

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const password = "s3cret-of-the-database"

func TestExternalEtcd(t *testing.T) {
	l := lab.New(t)
	node := l.Node(t, "server")
	etcd, err := l.Release.Binary("etcd")
	if err != nil {
		t.Fatal(err)
	}
	node.Serve(t, "root", etcd, "--data-dir", filepath.Join(l.Dir, "etcd"), "--listen-client-urls", "http://127.0.0.1:12379",
		"--advertise-client-urls", "http://127.0.0.1:12379", "--listen-peer-urls", "http://127.0.0.1:12380")
	awaitListener(t, node, "127.0.0.1:12379")
	flags := []string{"--datastore-endpoint", "http://127.0.0.1:12379"}
	lab.Step(t, "objects are kept", func(t *testing.T) { keepsObjects(t, node, flags...) })
	lab.Step(t, "the key of Secrets is rotated", func(t *testing.T) {
		node.Kubectl(t, "create", "secret", "generic", "kept", "--from-literal=word=hidden")
		node.RotateSecretsKey(t, "key2")
		// An API server that never knew another key than the new one reads everything.
		node.Stop(t)
		node.Restart(t, flags...)
		if word := node.Kubectl(t, "get", "secret", "kept", "-o", "jsonpath={.data.word}"); word != "aGlkZGVu" {
			t.Errorf("the Secret says %q", word)
		}
		node.Kubectl(t, "get", "secrets", "-A")
	})
	node.Stop(t) // before its datastore goes
}

func TestPostgreSQL(t *testing.T) {
	l := lab.New(t)
	first, second := l.Node(t, "first"), l.Node(t, "second")
	servePostgreSQL(t, first)
	endpoint := func(host string) []string {
		return []string{"--datastore-endpoint", "postgres://postgres:" + password + "@" + host + ":5432/kine?sslmode=disable"}
	}
	lab.Step(t, "objects are kept", func(t *testing.T) { keepsObjects(t, first, endpoint("127.0.0.1")...) })
	lab.Step(t, "a second server shares them", func(t *testing.T) {
		second.Start(t, "server", append(endpoint(first.IP), "--server", first.URL(), "--token-file", l.TokenFile(t, "own", first.Token(t)))...)
		if word := second.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.word}"); word != "old" {
			t.Fatalf("the second server reads %q", word)
		}
		second.AwaitNodeReady(t, "second")
	})
	lab.Step(t, "their key of Secrets is not rotated by one of them", func(t *testing.T) {
		if output := first.Refuses(t, "secrets-encrypt", "rotate-keys"); !strings.Contains(output, "by hand") {
			t.Errorf("it says: %s", output)
		}
	})
	lab.Step(t, "the password shows nowhere", func(t *testing.T) { secretStaysSecret(t, first) })
	second.Stop(t) // before the database goes
	first.Stop(t)
}

// keepsObjects starts a server, makes an object, and finds it again after a restart.
func keepsObjects(t *testing.T, node *lab.Node, flags ...string) {
	t.Helper()
	node.Start(t, "server", flags...)
	node.AwaitNodeReady(t, node.Name)
	node.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=old")
	node.Stop(t)
	node.Restart(t, flags...)
	if word := node.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.word}"); word != "old" {
		t.Fatalf("after a restart the object says %q", word)
	}
	if _, err := os.Stat(node.Data.EtcdData()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the server has an etcd of its own besides: %v", err)
	}
}

// servePostgreSQL runs Debian's PostgreSQL on a node, with a database for kine.
func servePostgreSQL(t *testing.T, node *lab.Node) {
	t.Helper()
	initdb, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(initdb) == 0 {
		t.Fatal("no PostgreSQL here: hack/packages.sh installs it")
	}
	bin := filepath.Dir(slices.Max(initdb))
	home := t.TempDir() // the lab's own directories are root's alone
	dir, passwordFile := filepath.Join(home, "data"), filepath.Join(home, "password")
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := errors.Join(
		os.Chmod(home, 0o755), os.Chmod(filepath.Dir(home), 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, uid, gid),
		os.WriteFile(passwordFile, []byte(password), 0o600), os.Chown(passwordFile, uid, gid),
	); err != nil {
		t.Fatal(err)
	}
	initialize := exec.Command("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--",
		filepath.Join(bin, "initdb"), "--pgdata", dir, "--auth=scram-sha-256", "--pwfile", passwordFile, "--no-sync")
	if output, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, output)
	}
	allow := "\nhost all all " + node.IP + "/24 scram-sha-256\n"
	rules, err := os.OpenFile(filepath.Join(dir, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rules.WriteString(allow); err != nil {
		t.Fatal(err)
	}
	_ = rules.Close()
	node.Serve(t, "postgres", filepath.Join(bin, "postgres"), "-D", dir, "-c", "listen_addresses=*",
		"-c", "unix_socket_directories="+dir, "-c", "fsync=off")
	awaitListener(t, node, "127.0.0.1:5432")
}

func awaitListener(t *testing.T, node *lab.Node, address string) {
	t.Helper()
	lab.Eventually(t, time.Minute, address+" answers", func() error {
		connection, err := node.Dial(t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// secretStaysSecret looks for the password in what the node has written and in all command lines of its components.
func secretStaysSecret(t *testing.T, node *lab.Node) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(node.Data.Logs(), "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, file := range logs {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), password) {
			t.Errorf("%s holds the database's password", file)
		}
	}
	for _, component := range []string{"kine", "kube-apiserver"} {
		pid, err := node.ComponentPID(component)
		if err != nil {
			t.Fatal(err)
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(cmdline), password) {
			t.Errorf("%s was given the database's password for all to see", component)
		}
	}
}
