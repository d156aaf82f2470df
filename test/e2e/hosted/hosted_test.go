//go:build e2e

// Package hosted is the scenario of the main job: a real cluster in one command, its control plane in pods and its nodes
// in machine pods; workloads on it; its nodes scaled and replaced, its parts killed; and all of it gone in the end.
package hosted

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const project = "default"

func TestHosted(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	var dev *lab.Tenant
	lab.Step(t, "make up ends with a cluster", func(t *testing.T) {
		if shown := host.MakeUp(t); strings.Count(shown, " Ready ") != 2 || !strings.Contains(shown, "dev-cluster") {
			t.Fatalf("it does not show the nodes of dev-cluster:\n%s", shown)
		}
		if list := host.Cloud(t, "k8s", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "2/2") {
			t.Fatalf("the list shows\n%s", list)
		}
		dev = host.Tenant(t, project, "dev-cluster")
		for _, node := range dev.AwaitNodes(t, 2) {
			size := dev.Kubectl(t, "get", "node", node, "-o", "jsonpath={.status.capacity.cpu} {.status.capacity.memory}")
			if size != "1 4Gi" {
				t.Errorf("node %s has %s, want the 1 4Gi of a u1.medium", node, size)
			}
		}
	})
	dev.Workloads(t)
	lab.Step(t, "nodes are added, taken away and replaced", func(t *testing.T) { scale(t, dev) })
	lab.Step(t, "what is killed comes back", func(t *testing.T) { heal(t, dev) })
	lab.Step(t, "delete leaves nothing", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "dev-cluster", "--yes", "--wait")
		dev.AwaitGone(t)
	})
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// scale goes up by the command line, down by kubectl, and then changes what nodes are like.
func scale(t *testing.T, dev *lab.Tenant) {
	host := dev.Host
	host.Cloud(t, "k8s", "scale", "dev-cluster", "--workers", "3", "--wait")
	before := dev.AwaitNodes(t, 3)
	host.Kubectl(t, "scale", "nodegroups.plasmacloud.io/dev-cluster-workers", "-n", "project-default", "--replicas=1")
	kept := dev.AwaitNodes(t, 1)
	if !slices.Contains(before, kept[0]) {
		t.Errorf("node %s was none of %v", kept[0], before)
	}
	host.Kubectl(t, "patch", "clusters.plasmacloud.io/dev-cluster", "-n", "project-default", "--type=merge",
		"-p", `{"spec":{"nodeGroups":{"workers":{"labels":{"edition":"second"}}}}}`)
	lab.Eventually(t, 3*time.Minute, "the node is replaced", func() error {
		nodes, err := dev.Try("get", "nodes", "-l", "edition=second", "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil && (nodes == "" || strings.Contains(nodes, kept[0])) {
			err = fmt.Errorf("the new ones are %q", nodes)
		}
		return err
	})
	dev.AwaitNodes(t, 1)
}

// heal deletes the control plane's pods and a machine.
func heal(t *testing.T, dev *lab.Tenant) {
	host, infrastructure := dev.Host, dev.Infrastructure(t)
	host.Kubectl(t, "delete", "pods", "-n", infrastructure, "-l", "plasmacloud.io/component=control-plane", "--grace-period=0", "--force")
	lab.Eventually(t, 2*time.Minute, "the API answers again", func() error {
		_, err := dev.Try("get", "--raw", "/readyz")
		return err
	})
	host.Kubectl(t, "delete", "deployment/control-plane", "-n", infrastructure)
	lab.Eventually(t, 3*time.Minute, "a deleted control plane is made again", func() error {
		_, err := host.TryKubectl("rollout", "status", "deployment/control-plane", "-n", infrastructure, "--timeout=5s")
		return err
	})
	lost := dev.AwaitNodes(t, 1)[0]
	host.Kubectl(t, "delete", "pod", lost, "-n", infrastructure, "--grace-period=0", "--force")
	lab.Eventually(t, 3*time.Minute, "the lost machine is replaced", func() error {
		ready, err := dev.ReadyNodes()
		if err == nil && (len(ready) != 1 || ready[0] == lost) {
			err = fmt.Errorf("the ready nodes are %v, the lost one is %s", ready, lost)
		}
		return err
	})
}
