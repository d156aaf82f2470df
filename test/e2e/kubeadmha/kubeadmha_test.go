//go:build e2e

// Package kubeadmha is the scenario of a highly available control plane on machines: three of them and a worker, behind
// the platform's load balancer. Any of them is killed, and the API keeps answering; another machine takes its place.
package kubeadmha

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const (
	project = "default"
	name    = "ha-cluster"
	planes  = "node-role.kubernetes.io/control-plane"
)

func TestKubeadmHA(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	var ha *lab.Tenant
	lab.Step(t, "a cluster of three and one", func(t *testing.T) {
		host.Cloud(t, "k8s", "create", "--name", name, "--type", "kubeadm", "--control-plane-replicas", "3",
			"--control-plane-instance-type", "u1.medium", "--workers", "1", "--wait", "--timeout", "15m")
		ha = host.Tenant(t, project, name)
		ha.AwaitNodes(t, 4)
		if members := etcdMembers(t, ha); len(members) != 3 {
			t.Errorf("members of etcd: %v", members)
		}
	})
	first := oldest(t, ha)
	lab.Step(t, "the machine that the control plane began with is killed", func(t *testing.T) { kill(t, ha, first) })
	lab.Step(t, "another one is killed", func(t *testing.T) {
		second := oldest(t, ha)
		if second == first {
			t.Fatalf("machine %s is there again", first)
		}
		kill(t, ha, second)
	})
	lab.Step(t, "delete leaves nothing", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", name, "--yes", "--wait")
		ha.AwaitGone(t)
	})
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// oldest is the node that has been in the control plane for longest.
func oldest(t *testing.T, c *lab.Tenant) string {
	t.Helper()
	return c.Kubectl(t, "get", "nodes", "-l", planes, "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[0].metadata.name}")
}

// kill ends a machine of the control plane. The API answers all along but for the moments in which what was under way
// breaks off, what was written stays, and in the end there are three members again, and the machine is none of them.
func kill(t *testing.T, c *lab.Tenant, machine string) {
	c.Kubectl(t, "create", "configmap", "before-"+machine, "--from-literal=killed="+machine)
	c.Host.Kubectl(t, "delete", "pod", machine, "-n", c.Infrastructure(t), "--grace-period=0", "--force")
	watching := make(chan struct{})
	outages := make(chan time.Duration, 1)
	go func() { outages <- outage(c, watching) }()
	lab.Eventually(t, 8*time.Minute, "the machine is replaced", func() error {
		ready, err := c.ReadyNodes()
		if err == nil && (len(ready) != 4 || slices.Contains(ready, machine)) {
			err = fmt.Errorf("the ready nodes are %v, the killed one is %s", ready, machine)
		}
		return err
	})
	lab.Eventually(t, time.Minute, "etcd has three members", func() error {
		if members := etcdMembers(t, c); len(members) != 3 || slices.Contains(members, machine) {
			return fmt.Errorf("they are %v, the killed one is %s", members, machine)
		}
		return nil
	})
	close(watching)
	if longest := <-outages; longest > 30*time.Second {
		t.Errorf("the API did not answer for %s", longest)
	} else {
		t.Logf("the longest time without an answer was %s", longest.Round(100*time.Millisecond))
	}
	if kept := c.Kubectl(t, "get", "configmap", "before-"+machine, "-o", "jsonpath={.data.killed}"); kept != machine {
		t.Errorf("what was written before is %q", kept)
	}
	lab.Eventually(t, 3*time.Minute, "the cluster runs", func() error {
		list, err := c.Host.TryCloud("k8s", "list")
		if err == nil && !strings.Contains(list, "RUNNING") {
			err = fmt.Errorf("the list shows\n%s", list)
		}
		return err
	})
}

// outage asks the API, through the load balancer, again and again, and returns the longest time that it did not answer.
func outage(c *lab.Tenant, end <-chan struct{}) time.Duration {
	var longest time.Duration
	answered := time.Now()
	for {
		select {
		case <-end:
			return longest
		default:
		}
		_, err := c.Try("get", "--raw", "/readyz", "--request-timeout=5s")
		if err == nil {
			longest = max(longest, time.Since(answered))
			answered = time.Now()
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// etcdMembers are the machines whose etcd is ready.
func etcdMembers(t *testing.T, c *lab.Tenant) []string {
	t.Helper()
	pods := strings.Fields(c.Kubectl(t, "get", "pods", "-n", "kube-system", "-l", "component=etcd", "--field-selector=status.phase=Running",
		"-o", `jsonpath={range .items[?(@.status.containerStatuses[0].ready==true)]}{.spec.nodeName}{"\n"}{end}`))
	slices.Sort(pods)
	return pods
}
