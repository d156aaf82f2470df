//go:build e2e

// Package k3s is the scenario of clusters of type K3s: a single server with SQLite, and three with etcd behind the API
// load balancer. Workloads run on both; of the three, one is killed, and the API goes on answering until it is replaced;
// and nothing is left of either in the end.
package k3s

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const project = "default"

func TestK3s(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	single(t, host)
	highlyAvailable(t, host)
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// create makes a cluster and returns it when all its nodes are ready.
func create(t *testing.T, host *lab.Node, name string, servers, workers int) *lab.Tenant {
	t.Helper()
	host.Cloud(t, "k8s", "create", "--name", name, "--type", "k3s", "--control-plane-instance-type", "u1.medium",
		"--control-plane-replicas", fmt.Sprint(servers), "--workers", fmt.Sprint(workers), "--wait")
	if list := host.Cloud(t, "k8s", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, fmt.Sprintf("%d/%d", workers, workers)) {
		t.Fatalf("the list shows\n%s", list)
	}
	c := host.Tenant(t, project, name)
	c.AwaitNodes(t, servers+workers)
	return c
}

func remove(t *testing.T, c *lab.Tenant) {
	t.Helper()
	c.Host.Cloud(t, "k8s", "delete", c.Name, "--yes", "--wait")
	c.AwaitGone(t)
}

// servers are the names of the control plane's machines.
func servers(t *testing.T, c *lab.Tenant) []string {
	t.Helper()
	return strings.Fields(c.Kubectl(t, "get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "jsonpath={.items[*].metadata.name}"))
}

// inside runs a command on one of the cluster's machines.
func inside(t *testing.T, c *lab.Tenant, machine string, command ...string) string {
	t.Helper()
	return c.Host.Kubectl(t, append([]string{"exec", "-n", c.Infrastructure(t), machine, "--"}, command...)...)
}

func single(t *testing.T, host *lab.Node) {
	var edge *lab.Tenant
	lab.Step(t, "a single server", func(t *testing.T) {
		edge = create(t, host, "edge", 1, 1)
		first := servers(t, edge)
		if len(first) != 1 {
			t.Fatalf("servers: %v", first)
		}
		if kept := inside(t, edge, first[0], "ls", "/var/lib/k8shost/server/db"); !strings.Contains(kept, "sqlite") || strings.Contains(kept, "etcd") {
			t.Errorf("it keeps its objects in %s, not in SQLite", kept)
		}
		if state := inside(t, edge, first[0], "systemctl", "is-active", "k8shost-server"); state != "active" {
			t.Errorf("the server's unit is %s", state)
		}
	})
	edge.Workloads(t)
	lab.Step(t, "its workers are scaled", func(t *testing.T) {
		host.Cloud(t, "k8s", "scale", "edge", "--workers", "2", "--wait")
		edge.AwaitNodes(t, 3)
	})
	lab.Step(t, "nothing is left of the single one", func(t *testing.T) { remove(t, edge) })
}

func highlyAvailable(t *testing.T, host *lab.Node) {
	var prod *lab.Tenant
	lab.Step(t, "three servers", func(t *testing.T) {
		prod = create(t, host, "prod", 3, 1)
		all := servers(t, prod)
		if len(all) != 3 {
			t.Fatalf("servers: %v", all)
		}
		members := inside(t, prod, all[0], "k8shost", "etcd-member", "ls")
		if well := strings.Count(members, "healthy") + strings.Count(members, "leader"); well != 3 {
			t.Errorf("etcd's members are\n%s", members)
		}
		prod.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=yes")
	})
	lab.Step(t, "a killed server is replaced, and the API answers all the while", func(t *testing.T) { kill(t, prod) })
	lab.Step(t, "nothing is left of the three", func(t *testing.T) { remove(t, prod) })
}

// kill takes a server away behind the platform's back, and asks the API something all the while.
func kill(t *testing.T, c *lab.Tenant) {
	before := servers(t, c)
	ctx, stop := context.WithCancel(t.Context())
	var asked, failed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			asked.Add(1)
			// A request that was under way to the server that dies may be lost; the next one may not.
			if word, err := c.Try("get", "configmap", "kept", "-o", "jsonpath={.data.word}", "--request-timeout=20s"); err != nil || word != "yes" {
				failed.Add(1)
				t.Logf("a request failed: %v %s", err, word)
			}
		}
	}()
	c.Host.Kubectl(t, "delete", "pod", before[0], "-n", c.Infrastructure(t), "--grace-period=0", "--force")
	lab.Eventually(t, 8*time.Minute, "the lost server is replaced", func() error {
		ready, err := c.ReadyNodes()
		if err != nil {
			return err
		}
		if len(ready) != 4 || slices.Contains(ready, before[0]) {
			return fmt.Errorf("the ready nodes are %v, the lost one is %s", ready, before[0])
		}
		return nil
	})
	stop()
	<-done
	t.Logf("%d requests, %d failed", asked.Load(), failed.Load())
	if failed.Load() > 3 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
	after := servers(t, c)
	if len(after) != 3 || slices.Contains(after, before[0]) {
		t.Fatalf("servers: %v, before %v", after, before)
	}
	lab.Eventually(t, time.Minute, "etcd has three members that are well", func() error {
		members := inside(t, c, after[0], "k8shost", "etcd-member", "ls")
		if well := strings.Count(members, "healthy") + strings.Count(members, "leader"); well != 3 || strings.Contains(members, before[0]) {
			return fmt.Errorf("they are\n%s", members)
		}
		return nil
	})
}
