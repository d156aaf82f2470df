//go:build e2e

// Package kubeadm is the scenario of a cluster whose control plane is on a machine: made over SSH by kubeadm, with one
// control-plane machine and two workers; workloads on it, its nodes scaled, and all of it gone in the end.
package kubeadm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const project = "default"

func TestKubeadm(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	var dev *lab.Tenant
	lab.Step(t, "a cluster in one command", func(t *testing.T) {
		host.Cloud(t, "k8s", "create", "--name", "dev-cluster", "--type", "kubeadm", "--control-plane-instance-type", "u1.medium",
			"--vpc", "default", "--workers", "2", "--wait")
		if list := host.Cloud(t, "k8s", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "2/2") {
			t.Fatalf("the list shows\n%s", list)
		}
		dev = host.Tenant(t, project, "dev-cluster")
		dev.AwaitNodes(t, 3)
		if planes := dev.Kubectl(t, "get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "name"); len(strings.Fields(planes)) != 1 {
			t.Errorf("nodes of the control plane: %q", planes)
		}
		pods := dev.Kubectl(t, "get", "pods", "-n", "kube-system", "-o", "name")
		for _, component := range []string{"etcd-", "kube-apiserver-", "kube-controller-manager-", "kube-scheduler-", "coredns-"} {
			if !strings.Contains(pods, component) {
				t.Errorf("no %s in kube-system:\n%s", component, pods)
			}
		}
	})
	dev.Workloads(t)
	lab.Step(t, "its machines let in what their security group says", func(t *testing.T) { securityGroup(t, dev) })
	lab.Step(t, "its machines are worked on, and get a new key", func(t *testing.T) { access(t, dev) })
	lab.Step(t, "nodes are added and taken away", func(t *testing.T) { scale(t, dev) })
	lab.Step(t, "a lost worker is replaced", func(t *testing.T) { replace(t, dev) })
	lab.Step(t, "delete leaves nothing", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "dev-cluster", "--yes", "--wait")
		dev.AwaitGone(t)
	})
	lab.Step(t, "a cluster for those who bring their pod network", func(t *testing.T) { bare(t, host) })
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// scale goes up by the command line, and down by kubectl.
func scale(t *testing.T, dev *lab.Tenant) {
	host := dev.Host
	host.Cloud(t, "k8s", "scale", "dev-cluster", "--workers", "3", "--wait")
	before := dev.AwaitNodes(t, 4)
	host.Kubectl(t, "scale", "nodegroups.plasmacloud.io/dev-cluster-workers", "-n", "project-default", "--replicas=1")
	for _, node := range dev.AwaitNodes(t, 2) {
		if !slices.Contains(before, node) {
			t.Errorf("node %s was none of %v", node, before)
		}
	}
}

// replace deletes a worker's machine behind the platform's back.
func replace(t *testing.T, dev *lab.Tenant) {
	lost := dev.Kubectl(t, "get", "nodes", "-l", "plasmacloud.io/node-group=workers", "-o", "jsonpath={.items[*].metadata.name}")
	dev.Host.Kubectl(t, "delete", "pod", lost, "-n", dev.Infrastructure(t), "--grace-period=0", "--force")
	lab.Eventually(t, 4*time.Minute, "the lost machine is replaced", func() error {
		ready, err := dev.ReadyNodes()
		if err == nil && (len(ready) != 2 || slices.Contains(ready, lost)) {
			err = fmt.Errorf("the ready nodes are %v, the lost one is %s", ready, lost)
		}
		return err
	})
}

// bare makes a cluster without a pod network: it is complete, and its nodes wait for one.
func bare(t *testing.T, host *lab.Node) {
	host.Cloud(t, "k8s", "create", "--name", "bare", "--type", "kubeadm", "--control-plane-instance-type", "u1.medium",
		"--vpc", "default", "--workers", "1", "--cni", "none", "--wait")
	cluster := host.Tenant(t, project, "bare")
	nodes := cluster.Kubectl(t, "get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}{"\n"}{end}`)
	if strings.Count(nodes, "False container runtime network not ready") != 2 {
		t.Errorf("the nodes are\n%s", nodes)
	}
	if machines := host.Cloud(t, "instance", "list", "--cluster", "bare", "-o", "json"); strings.Count(machines, "its node waits for a pod network") != 2 {
		t.Errorf("the machines are\n%s", machines)
	}
	host.Cloud(t, "k8s", "delete", "bare", "--yes", "--wait")
	cluster.AwaitGone(t)
}
