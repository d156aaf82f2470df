package byoclab

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// Stub is what a scenario asks any stub, and tells it to do wrong.
type Stub interface {
	Inventory() map[string]int
	Created() map[string]int
	Spoil(fault ledger.Fault)
	Revoke(revoked bool)
}

// Life is that of an account with a network, a cluster and a bucket, in the steps that are the same for every cloud, be it
// a stub or the real one.
type Life struct {
	Platform
	Stub Stub // in place of the cloud; nil where it is the real one, of which nobody can tell what it has made
	// Provider is the cloud's name in lower case, and Type that of its clusters, as the command line takes it.
	Provider, Type string
	// Account are the flags of the account, and Credentials what is in the file with its credentials.
	Account     []string
	Credentials string
	// Secret is what of them may be nowhere but in the account's Secret, and in the environment of the provider.
	Secret string
	// Version of Kubernetes in full that clusters of v1.35 have; any where it is empty.
	Version string
	// Timeout is how long something may take to be made, such as 45m; the command line's own where it is empty.
	Timeout string

	second map[string]int // what the second network has in the stub
}

// made runs a command that makes or changes something, and waits for it.
func (l *Life) made(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--wait")
	if l.Timeout != "" {
		args = append(args, "--timeout", l.Timeout)
	}
	l.Cloud(t, args...)
}

// created counts what the stub has ever made.
func (l *Life) created() map[string]int {
	if l.Stub == nil {
		return nil
	}
	return l.Stub.Created()
}

// CreateAccount makes the account prod.
func (l *Life) CreateAccount(t *testing.T) {
	t.Helper()
	l.account(t, "prod")
	if shown := l.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("verify says\n%s", shown)
	}
}

func (l *Life) account(t *testing.T, name string, flags ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	must(t, os.WriteFile(file, []byte(l.Credentials), 0o600))
	l.made(t, slices.Concat([]string{"account", "create", "--name", name, "--credentials-file", file}, l.Account, flags)...)
}

// CreateNetwork makes a network of the account.
func (l *Life) CreateNetwork(t *testing.T, name, cidr string) {
	t.Helper()
	l.made(t, "vpc", "create", "--name", name, "--account", "prod", "--cidr", cidr)
}

// CreateCluster makes the cluster shop in the network main, and looks for words in the list of clusters.
func (l *Life) CreateCluster(t *testing.T, words ...string) {
	t.Helper()
	l.made(t, "k8s", "create", "--name", "shop", "--type", l.Type, "--vpc", "main", "--version", "v1.35", "--workers", "3", "--instance-type", "u1.large",
		"--access-cidr", "198.51.100.0/24")
	list := l.Cloud(t, "k8s", "list")
	for _, want := range append(words, "shop", strings.ToUpper(l.Type), "RUNNING", l.Version, "3/3") {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
}

// CreateBucket makes the bucket assets, which keeps its cluster.
func (l *Life) CreateBucket(t *testing.T) {
	l.made(t, "bucket", "create", "--name", "assets", "--cluster", "shop")
	if list := l.Cloud(t, "bucket", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "assets") {
		t.Errorf("the list shows\n%s", list)
	}
	if refusal := refused(t, l.Platform, "k8s", "delete", "shop", "--yes"); !strings.Contains(refusal, "it still has buckets: assets") {
		t.Errorf("deleting its cluster: %s", refusal)
	}
}

// Unchanged has the platform look at the cluster again: there is nothing to do.
func (l *Life) Unchanged(t *testing.T) {
	before := l.created()
	l.made(t, "k8s", "repair", "shop")
	if plan := planned(t, l.Platform, "shop", "Repair"); strings.TrimSpace(plan) != "nothing to do" {
		t.Errorf("planned again:\n%s", plan)
	}
	if after := l.created(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("made %v before, %v after", before, after)
	}
}

// Scale makes the cluster larger, in place.
func (l *Life) Scale(t *testing.T) {
	l.made(t, "k8s", "scale", "shop", "--workers", "5")
	if plan := planned(t, l.Platform, "shop", "Scale"); !strings.Contains(plan, "0 created, 1 changed, 0 replaced, 0 destroyed") {
		t.Errorf("scaling was planned as\n%s", plan)
	}
	if list := l.Cloud(t, "k8s", "list"); !strings.Contains(list, "5/5") {
		t.Errorf("the list shows\n%s", list)
	}
}

// Elsewhere leaves the work in a second account to a deployer that is no pod of the platform: a program on a host that
// reaches the platform by a port of its nodes.
func (l *Life) Elsewhere(t *testing.T, node *lab.Node) {
	t.Helper()
	l.account(t, "afar", "--remote-deployer")
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	for _, word := range strings.Fields(l.Cloud(t, "account", "deployer-token", "afar", "--ca-file", ca)) {
		if strings.HasPrefix(word, "pcd_") { // the rest is for people
			must(t, os.WriteFile(token, []byte(word), 0o600))
		}
	}
	port := l.Kubectl(t, "get", "service", "deployments", "-n", System, "-o", "jsonpath={.spec.ports[0].nodePort}")
	node.Serve(t, "root", filepath.Join(node.Release().Dir(), "bin", "cloudd"), "deployer", "--server=https://"+net.JoinHostPort(node.IP, port), "--account=default/afar",
		"--token-file="+token, "--ca-file="+ca, "--release-dir="+node.Release().Dir(), "--work-dir="+filepath.Join(dir, "work"))
	l.made(t, "vpc", "create", "--name", "third", "--account", "afar", "--cidr", "10.2.0.0/16")
	if pods := l.Kubectl(t, "get", "pods", "-n", System, "-l", "app=deployer", "-o", "name"); pods != "" {
		t.Errorf("the platform does it itself: %s", pods)
	}
	l.made(t, "vpc", "delete", "third", "--yes")
	l.made(t, "account", "delete", "afar", "--yes")
}

// Remove deletes what there is of the network main and of the account: nothing is left but what was forgotten, neither there
// nor here. The deployer that removes the network is killed with -9 once one of a kind is gone.
func (l *Life) Remove(t *testing.T, first string) {
	t.Helper()
	if refusal := refused(t, l.Platform, "vpc", "delete", "main", "--yes"); !strings.Contains(refusal, "it still has clusters: shop") {
		t.Errorf("deleting its network: %s", refusal)
	}
	l.made(t, "bucket", "delete", "assets", "--yes")
	l.made(t, "k8s", "delete", "shop", "--yes")
	l.removeNetwork(t, first)
	l.made(t, "account", "delete", "prod", "--yes")
	if l.Stub != nil {
		if left := l.Stub.Inventory(); !maps.Equal(left, l.second) {
			t.Errorf("this is left: %v; forgotten was %v", left, l.second)
		}
	}
	l.awaitNoDeployments(t)
}

// removeNetwork removes the network main, in a stub by a deployer that is killed at it.
func (l *Life) removeNetwork(t *testing.T, first string) {
	t.Helper()
	if l.Stub == nil {
		l.made(t, "vpc", "delete", "main", "--yes")
		return
	}
	before, stack := l.Stub.Inventory()[first], l.stackOf(t, "main")
	l.Cloud(t, "vpc", "delete", "main", "--yes")
	lab.Eventually(t, 2*time.Minute, "something is removed", func() error {
		if there := l.Stub.Inventory()[first]; there >= before {
			return fmt.Errorf("%d %s are there", there, first)
		}
		return nil
	})
	killDeployer(t, stack)
	lab.Eventually(t, 4*time.Minute, "it is removed all the same", func() error {
		left, err := l.TryKubectl("get", "networks", "-n", Team, "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil && strings.Contains(left, "main") {
			err = fmt.Errorf("there are %s", left)
		}
		return err
	})
}

// awaitNoDeployments returns when nothing is left of deployments: a pod takes its time to end.
func (l *Life) awaitNoDeployments(t *testing.T) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, "nothing is left of deployments", func() error {
		left, err := l.TryKubectl("get", "pods,secrets", "-n", System, "-o", "name")
		if err == nil && (strings.Contains(left, "deploy") || strings.Contains(left, "tfstate")) {
			err = fmt.Errorf("there are\n%s", left)
		}
		return err
	})
}

// Untold looks for the credentials in all that people and programs get to see.
func (l *Life) Untold(t *testing.T) {
	t.Helper()
	nobodyTells(t, l.Platform, l.Secret)
}
