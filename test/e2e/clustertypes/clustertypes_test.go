//go:build e2e

// Package clustertypes is the scenario of the same verbs on every type of cluster: create, list, get, scale, kubeconfig, repair
// and delete mean the same whether the control plane is hosted or on machines.
package clustertypes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const project = "default"

// kind is a type of cluster, and what differs.
type kind struct {
	name string
	// flags of create besides those that all have.
	flags []string
	// planes is how many nodes are the control plane's own.
	planes int
}

func kinds() []kind {
	machines := []string{"--control-plane-replicas", "1", "--control-plane-instance-type", "u1.medium"}
	return []kind{
		{name: "Hosted"},
		{name: "Kubeadm", flags: machines, planes: 1},
		{name: "K3s", flags: machines, planes: 1},
	}
}

func TestClusterTypes(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	for _, kind := range kinds() {
		c := &cluster{kind: kind, host: host, name: strings.ToLower(kind.name)}
		for _, verb := range []struct {
			name string
			run  func(t *testing.T)
		}{
			{"create", c.create}, {"list", c.list}, {"kubeconfig", c.kubeconfig}, {"scale", c.scale}, {"repair", c.repair}, {"delete", c.remove},
		} {
			lab.Step(t, kind.name+" "+verb.name, verb.run)
		}
	}
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

type cluster struct {
	kind
	host   *lab.Node
	name   string
	tenant *lab.Tenant
}

func (c *cluster) create(t *testing.T) {
	args := append([]string{"k8s", "create", "--name", c.name, "--type", c.kind.name, "--workers", "1", "--wait"}, c.flags...)
	c.host.Cloud(t, args...)
	c.tenant = c.host.Tenant(t, project, c.name)
	c.tenant.AwaitNodes(t, 1+c.planes)
}

func (c *cluster) list(t *testing.T) {
	list := c.host.Cloud(t, "k8s", "list")
	for _, want := range []string{c.name, c.kind.name, "RUNNING", "1/1"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	if one := c.host.Cloud(t, "k8s", "get", c.name, "-o", "yaml"); !strings.Contains(one, "phase: RUNNING") || !strings.Contains(one, "endpoint: https://") {
		t.Errorf("get says\n%s", one)
	}
	if tasks := c.host.Cloud(t, "task", "list"); !strings.Contains(tasks, c.name) {
		t.Errorf("no task of it:\n%s", tasks)
	}
}

// kubeconfig asks for the administrator's, and for one that lasts a while only.
func (c *cluster) kubeconfig(t *testing.T) {
	if who := c.tenant.Kubectl(t, "auth", "can-i", "*", "*", "--all-namespaces"); who != "yes" {
		t.Errorf("the administrator may do everything: %s", who)
	}
	short := filepath.Join(t.TempDir(), "short.kubeconfig")
	content := c.host.Cloud(t, "k8s", "kubeconfig", c.name, "--role", "view")
	if err := os.WriteFile(short, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.host.TryKubectl("--kubeconfig="+short, "get", "pods"); err != nil {
		t.Errorf("a viewer may look: %v", err)
	}
	if _, err := c.host.TryKubectl("--kubeconfig="+short, "create", "configmap", "no"); err == nil {
		t.Error("a viewer may write")
	}
}

func (c *cluster) scale(t *testing.T) {
	c.host.Cloud(t, "k8s", "scale", c.name, "--workers", "2", "--wait")
	c.tenant.AwaitNodes(t, 2+c.planes)
	c.host.Cloud(t, "k8s", "scale", c.name, "--workers", "1", "--wait")
	c.tenant.AwaitNodes(t, 1+c.planes)
}

// repair has the platform mend what was taken away behind its back: what a cluster of every type has.
func (c *cluster) repair(t *testing.T) {
	infrastructure := c.tenant.Infrastructure(t)
	c.host.Kubectl(t, "delete", "secret", "kubeconfig", "-n", infrastructure)
	c.host.Kubectl(t, "delete", "networkpolicies", "--all", "-n", infrastructure)
	c.host.Cloud(t, "k8s", "repair", c.name, "--wait")
	lab.Eventually(t, 2*time.Minute, "what was deleted is there again", func() error {
		found, err := c.host.TryKubectl("get", "secrets,networkpolicies", "-n", infrastructure, "-o", "name")
		if err == nil && (!strings.Contains(found, "secret/kubeconfig") || !strings.Contains(found, "networkpolicy")) {
			err = fmt.Errorf("there are %s", found)
		}
		return err
	})
	c.tenant.AwaitNodes(t, 1+c.planes)
	if _, err := c.tenant.Try("get", "--raw", "/readyz"); err != nil {
		t.Error(err)
	}
}

func (c *cluster) remove(t *testing.T) {
	c.host.Cloud(t, "k8s", "delete", c.name, "--yes", "--wait")
	c.tenant.AwaitGone(t)
	if list := c.host.Cloud(t, "k8s", "list"); strings.Contains(list, c.name) {
		t.Errorf("the list still shows it:\n%s", list)
	}
}
