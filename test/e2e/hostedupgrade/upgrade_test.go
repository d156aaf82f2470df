//go:build e2e

// Package hostedupgrade is the scenario of a hosted cluster with an etcd of its own: it goes up a minor version without a
// request that fails, its nodes follow, its objects stay; an image that is missing is named, and the cluster comes up
// once it is there.
package hostedupgrade

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "project-default"

func TestHostedUpgrade(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	versions := l.Release.Versions()
	newest, older := versions[0], versions[1]
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	var c *lab.Tenant
	lab.Step(t, "a cluster with an etcd of its own", func(t *testing.T) {
		manifest := host.Cloud(t, "k8s", "create", "--name", "own", "--version", older, "--workers", "1", "--control-plane-replicas", "2", "--export")
		manifest = strings.Replace(manifest, "controlPlane:\n", "controlPlane:\n    datastore: {mode: Dedicated}\n", 1)
		manifest = strings.Replace(manifest, "spec:\n", "spec:\n  clusterNetwork: {podCIDR: 10.244.0.0/16}\n", 1)
		host.KubectlWith(t, manifest, "apply", "-n", namespace, "-f", "-")
		running(t, host, "own", older)
		c = host.Tenant(t, "default", "own")
		c.AwaitNodes(t, 1)
		c.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=yes")
		if pods := host.Kubectl(t, "get", "pods", "-n", c.Infrastructure(t), "-l", "plasmacloud.io/component=datastore", "-o", "name"); pods == "" {
			t.Error("there is no etcd in the cluster's namespace")
		}
	})
	lab.Step(t, "it goes up a version, and its API answers all the time", func(t *testing.T) { upgrade(t, c, newest) })
	lab.Step(t, "an image that is missing is named", func(t *testing.T) { missing(t, host, older) })
	lab.Step(t, "delete leaves nothing", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "own", "--yes", "--wait")
		c.AwaitGone(t)
	})
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// running waits until a cluster runs a version.
func running(t *testing.T, host *lab.Node, name, version string) {
	t.Helper()
	lab.Eventually(t, 6*time.Minute, name+" runs "+version, func() error {
		have, err := host.TryKubectl("get", "clusters.plasmacloud.io", name, "-n", namespace, "-o", "jsonpath={.status.phase} {.status.version}")
		if err == nil && have != "RUNNING "+version {
			err = fmt.Errorf("it is %s", have)
		}
		return err
	})
}

// upgrade changes the version, and asks the API something all the while.
func upgrade(t *testing.T, c *lab.Tenant, version string) {
	before := c.AwaitNodes(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	var asked, failed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			asked.Add(1)
			if word, err := c.Try("get", "configmap", "kept", "-o", "jsonpath={.data.word}"); err != nil || word != "yes" {
				failed.Add(1)
				t.Logf("a request failed: %v %s", err, word)
			}
		}
	}()
	c.Host.Cloud(t, "k8s", "upgrade", "own", "--version", version)
	running(t, c.Host, "own", version)
	after := c.AwaitNodes(t, 1)
	stop()
	<-done
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
	t.Logf("%d requests, none failed", asked.Load())
	if after[0] == before[0] {
		t.Errorf("node %s was not replaced", before[0])
	}
	if kubelet := c.Kubectl(t, "get", "node", after[0], "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"); kubelet != version {
		t.Errorf("the node runs %s, want %s", kubelet, version)
	}
}

// missing takes the scheduler's image away before a cluster is made, and brings it back.
func missing(t *testing.T, host *lab.Node, version string) {
	image, err := host.Release().Image("kube-scheduler", version)
	if err != nil {
		t.Fatal(err)
	}
	ctr, err := host.Release().Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	remove := exec.Command(ctr, "--address", host.Data.ContainerdSocket(), "--namespace", "k8s.io", "images", "rm", image.Refs[0])
	if output, err := remove.CombinedOutput(); err != nil {
		t.Fatalf("remove the image: %v\n%s", err, output)
	}
	host.Cloud(t, "k8s", "create", "--name", "lacking", "--version", version, "--workers", "0")
	lab.Eventually(t, 2*time.Minute, "the missing image is named", func() error {
		told, err := host.TryKubectl("get", "tasks.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster=lacking", "-o", "json")
		if err == nil && !strings.Contains(told, image.Refs[0]) {
			err = fmt.Errorf("the task does not name %s", image.Refs[0])
		}
		return err
	})
	host.ImportImages(t, release.Refs(image)...)
	running(t, host, "lacking", version)
	host.Cloud(t, "k8s", "delete", "lacking", "--yes", "--wait")
	(&lab.Tenant{Host: host, Project: "default", Name: "lacking"}).AwaitGone(t)
}
