//go:build e2e

// Package management is the scenario of the management plane: `cloud up` on a host, a project, a network, clusters of the
// fake type through real tasks, and a daemon that is killed in the middle and again.
package management

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestManagement(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up installs the platform, and may be repeated", func(t *testing.T) {
		host.Cloud(t, "up", "--data-dir", host.Data.Path())
		host.Cloud(t, "up", "--data-dir", host.Data.Path())
		if report := host.Cloud(t, "status", "--data-dir", host.Data.Path(), "-o", "json"); strings.Contains(report, `"ready": false`) {
			t.Fatalf("not all of it is ready:\n%s", report)
		}
	})
	lab.Step(t, "a project with a network", func(t *testing.T) {
		host.Cloud(t, "project", "create", "--name", "shop", "--org", "default")
		lab.Eventually(t, time.Minute, "its namespace", func() error {
			_, err := host.TryKubectl("get", "rolebinding", "project-admin-binding", "-n", "project-shop")
			return err
		})
		host.Cloud(t, "account", "create", "--project", "shop", "--name", "local", "--provider", "local")
		host.Cloud(t, "vpc", "create", "--project", "shop", "--name", "main", "--cidr", "10.9.0.0/16")
	})
	lab.Step(t, "a cluster is created, scaled and shown", func(t *testing.T) {
		host.Cloud(t, "k8s", "create", "--project", "shop", "--name", "dev-cluster", "--vpc", "main", "--type", "fake", "--workers", "2", "--wait")
		host.Cloud(t, "k8s", "scale", "dev-cluster", "--project", "shop", "--workers", "5", "--wait")
		want(t, host, "dev-cluster", "RUNNING 5")
	})
	lab.Step(t, "mistakes are named", func(t *testing.T) { mistakes(t, host) })
	lab.Step(t, "a daemon killed in the middle goes on", func(t *testing.T) { killed(t, host) })
	lab.Step(t, "parents go after their children", func(t *testing.T) {
		if output, err := host.TryCloud("vpc", "delete", "main", "--project", "shop", "--yes"); err == nil || !strings.Contains(output, "dev-cluster") {
			t.Fatalf("a network with clusters was deleted, or the refusal names none: %v\n%s", err, output)
		}
		for _, name := range []string{"dev-cluster", "slow"} {
			host.Cloud(t, "k8s", "delete", name, "--project", "shop", "--yes", "--wait")
		}
		host.Cloud(t, "vpc", "delete", "main", "--project", "shop", "--yes")
	})
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// want waits for a cluster's phase and number of ready nodes.
func want(t *testing.T, host *lab.Node, cluster, state string) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, cluster+" is "+state, func() error {
		have, err := host.TryKubectl("get", "clusters.plasmacloud.io", cluster, "-n", "project-shop", "-o", "jsonpath={.status.phase} {.status.nodes.ready}")
		if err == nil && have != state {
			err = fmt.Errorf("it is %s", have)
		}
		return err
	})
}

func mistakes(t *testing.T, host *lab.Node) {
	for wanted, args := range map[string][]string{
		"v1.36":          {"k8s", "create", "--name", "old", "--type", "fake", "--vpc", "main", "--version", "v1.20"},
		"nowhere":        {"k8s", "create", "--name", "lost", "--type", "fake", "--vpc", "nowhere"},
		"overlap":        {"vpc", "create", "--name", "twin", "--cidr", "10.9.1.0/24"},
		"dev-cluster":    {"k8s", "create", "--name", "dev-cluster", "--type", "fake", "--vpc", "main"},
		"of type Hosted": {"k8s", "create", "--name", "real", "--vpc", "main"},
		"Did you mean":   {"k8s", "crate"},
	} {
		output, err := host.TryCloud(append(args, "--project", "shop")...)
		if err == nil || !strings.Contains(strings.ToLower(output), strings.ToLower(wanted)) {
			t.Errorf("cloud %s: %v; want a refusal with %q in\n%s", strings.Join(args, " "), err, wanted, output)
		}
	}
}

// killed creates a slow cluster and kills the daemon twice while it is made.
func killed(t *testing.T, host *lab.Node) {
	manifest := host.Cloud(t, "k8s", "create", "--project", "shop", "--name", "slow", "--vpc", "main", "--type", "fake", "--workers", "3", "--export")
	manifest = strings.Replace(manifest, "metadata:\n", "metadata:\n  annotations: {fake.plasmacloud.io/step-seconds: \"3\"}\n", 1)
	host.KubectlWith(t, manifest, "apply", "-n", "project-shop", "-f", "-")
	for _, step := range []string{"1/5", "3/5"} {
		lab.Eventually(t, time.Minute, "the task is at "+step, func() error {
			progress, err := host.TryKubectl("get", "tasks.plasmacloud.io", "-n", "project-shop", "-l", "plasmacloud.io/cluster=slow", "-o", "jsonpath={.items[0].status.progress}")
			if err == nil && progress < step {
				err = fmt.Errorf("it is at %q", progress)
			}
			return err
		})
		pids := lab.ProcessesWith("/usr/local/bin/cloudd")
		if len(pids) == 0 {
			t.Fatal("the daemon does not run")
		}
		for _, pid := range pids {
			if host.Owns(pid) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want(t, host, "slow", "RUNNING 3")
	attempts := host.Kubectl(t, "get", "tasks.plasmacloud.io", "-n", "project-shop", "-l", "plasmacloud.io/cluster=slow", "-o", "jsonpath={.items[*].spec.operation}")
	if strings.TrimSpace(attempts) != "Create" {
		t.Fatalf("tasks of the cluster: %q, want one", attempts)
	}
}
