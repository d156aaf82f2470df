//go:build e2e

// Package hostedfaults is the scenario of hosted clusters in trouble: the daemon killed again and again while several are
// made and deleted, each in another step, clusters deleted while they are made, clusters that cannot be made, and many made and deleted in a row.
package hostedfaults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "project-default"

func TestHostedFaults(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	lab.Step(t, "the daemon is killed again and again while clusters are made", func(t *testing.T) { killCreating(t, host) })
	lab.Step(t, "and while they are deleted", func(t *testing.T) { killDeleting(t, host) })
	lab.Step(t, "a cluster is deleted while it is made", func(t *testing.T) { deleteEarly(t, host) })
	lab.Step(t, "what cannot be made says why", func(t *testing.T) { badInput(t, host) })
	lab.Step(t, "a lost control plane is deleted by force", func(t *testing.T) { force(t, host) })
	lab.Step(t, "ten in a row", func(t *testing.T) { tenInARow(t, host) })
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// kill ends the daemon without warning. A pod that is deleted with no grace is killed like a process, but the next one
// starts at once: the kubelet would make a container that dies again and again wait longer each time.
func kill(t *testing.T, host *lab.Node) {
	t.Helper()
	host.Kubectl(t, "delete", "pods", "-n", "plasmacloud-system", "-l", "app=cloudd", "--grace-period=0", "--force")
}

// crowd are clusters that are made at once: whenever the daemon is killed, each is in another step.
var crowd = []string{"tough-0", "tough-1", "tough-2", "tough-3"}

// The steps of tasks, in their order.
var (
	creating = []string{"prepare", "certificates", "endpoint", "datastore", "control-plane", "api", "cluster-objects", "nodes"}
	deleting = []string{"remove-nodes", "remove-control-plane", "remove-datastore", "remove-identity", "remove-namespace"}
)

// furthest is the step that the first of the crowd is in, and which steps all of them are in. None is in any
// where all have come to their end.
func furthest(host *lab.Node, operation string, order []string) (furthest int, all []string, err error) {
	found, err := host.TryKubectl("get", "tasks.plasmacloud.io", "-n", namespace,
		"-o", fmt.Sprintf(`jsonpath={range .items[?(@.spec.operation==%q)]}{.status.phase}/{.status.step}{"\n"}{end}`, operation))
	if err != nil {
		return 0, nil, err
	}
	furthest = -1
	for _, line := range strings.Fields(found) {
		phase, step, _ := strings.Cut(line, "/")
		if !v1alpha1.TaskPhase(phase).Finished() {
			furthest, all = max(furthest, slices.Index(order, step)), append(all, step)
		}
	}
	return furthest, all, nil
}

// killInBetween kills the daemon as soon as the first of the crowd has come to each of the steps; the others are in
// earlier ones. Some steps are over before they are seen: then it is killed in the one after. The last ones may be over
// for all of the crowd.
func killInBetween(t *testing.T, host *lab.Node, operation string, order []string) {
	t.Helper()
	for i, step := range order {
		over := false
		lab.Eventually(t, 4*time.Minute, "a cluster is in step "+step, func() error {
			first, all, err := furthest(host, operation, order)
			over = len(all) == 0 && i > len(order)/2
			if err == nil && first < i && !over {
				return fmt.Errorf("they are in %v", all)
			}
			if err == nil {
				t.Logf("killed in %v", all)
			}
			return err
		})
		if over {
			return
		}
		kill(t, host)
		lab.Eventually(t, 2*time.Minute, "the daemon is back", func() error {
			_, err := host.TryKubectl("rollout", "status", "deployment/cloudd", "-n", "plasmacloud-system", "--timeout=1s")
			return err
		})
	}
}

func killCreating(t *testing.T, host *lab.Node) {
	for _, name := range crowd {
		host.Cloud(t, "k8s", "create", "--name", name, "--workers", "1", "--instance-type", "u1.small")
	}
	killInBetween(t, host, "Create", creating)
	for _, name := range crowd {
		lab.Eventually(t, 6*time.Minute, name+" runs", func() error { return phase(host, name, "RUNNING") })
		operations := host.Kubectl(t, "get", "tasks.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster="+name, "-o", "jsonpath={.items[*].spec.operation}")
		if operations != "Create" {
			t.Errorf("tasks of %s: %q, want one", name, operations)
		}
		if machines := strings.Fields(host.Kubectl(t, "get", "machines.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster="+name, "-o", "name")); len(machines) != 1 {
			t.Errorf("machines of %s: %v, want one", name, machines)
		}
		host.Tenant(t, "default", name).AwaitNodes(t, 1)
	}
}

func killDeleting(t *testing.T, host *lab.Node) {
	for _, name := range crowd {
		host.Cloud(t, "k8s", "delete", name, "--yes")
	}
	killInBetween(t, host, "Delete", deleting)
	for _, name := range crowd {
		lab.Eventually(t, 4*time.Minute, name+" is gone", func() error { return gone(host, name) })
		(&lab.Tenant{Host: host, Project: "default", Name: name}).AwaitGone(t)
	}
}

// deleteEarly deletes a cluster at once, and another when its control plane is about to start.
func deleteEarly(t *testing.T, host *lab.Node) {
	for name, starts := range map[string]bool{"early-a": false, "early-b": true} {
		host.Cloud(t, "k8s", "create", "--name", name, "--workers", "1")
		lab.Eventually(t, time.Minute, name+" begins", func() error {
			endpoint, err := host.TryKubectl("get", "clusters.plasmacloud.io", name, "-n", namespace, "-o", "jsonpath={.status.endpoint}")
			if err == nil && starts && endpoint == "" {
				err = errors.New("it has no endpoint yet")
			}
			return err
		})
		host.Cloud(t, "k8s", "delete", name, "--yes", "--wait")
		(&lab.Tenant{Host: host, Project: "default", Name: name}).AwaitGone(t)
	}
}

func badInput(t *testing.T, host *lab.Node) {
	host.Kubectl(t, "patch", "projects.plasmacloud.io/default", "--type=merge", "-p", `{"spec":{"quota":{"nodes":10}}}`)
	for wanted, args := range map[string][]string{
		"v1.36":        {"--name", "old", "--version", "v1.20"},
		"nodes":        {"--name", "crowded", "--workers", "900"},
		"no-such-type": {"--name", "odd", "--instance-type", "no-such-type"},
	} {
		output, err := host.TryCloud(append([]string{"k8s", "create"}, args...)...)
		if err == nil || !strings.Contains(output, wanted) {
			t.Errorf("cloud k8s create %s: %v; want a refusal with %q in\n%s", strings.Join(args, " "), err, wanted, output)
		}
	}
	host.Cloud(t, "k8s", "create", "--name", "huge", "--workers", "1", "--instance-type", "u1.8xlarge")
	lab.Eventually(t, 2*time.Minute, "the machine says that it is too large", func() error {
		message, err := host.TryKubectl("get", "machines.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster=huge", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].message}`)
		if err == nil && !strings.Contains(strings.ToLower(message), "insufficient") {
			err = fmt.Errorf("it says %q", message)
		}
		return err
	})
	if output, err := host.TryCloud("k8s", "create", "--name", "huge"); err == nil || !strings.Contains(output, "huge") {
		t.Errorf("a name that is taken: %v\n%s", err, output)
	}
	// Mended, it comes up by itself.
	host.Kubectl(t, "patch", "clusters.plasmacloud.io/huge", "-n", namespace, "--type=merge", "-p", `{"spec":{"nodeGroups":{"workers":{"instanceType":"u1.medium"}}}}`)
	lab.Eventually(t, 4*time.Minute, "the mended cluster runs", func() error { return phase(host, "huge", "RUNNING") })
	host.Cloud(t, "k8s", "delete", "huge", "--yes", "--wait")
	(&lab.Tenant{Host: host, Project: "default", Name: "huge"}).AwaitGone(t)
}

// force deletes a cluster whose control plane and machines somebody has taken away.
func force(t *testing.T, host *lab.Node) {
	host.Cloud(t, "k8s", "create", "--name", "lost", "--workers", "1", "--wait")
	lost := host.Tenant(t, "default", "lost")
	host.Kubectl(t, "delete", "namespace", lost.Infrastructure(t), "--wait=false")
	host.Cloud(t, "k8s", "delete", "lost", "--yes", "--force", "--wait")
	lost.AwaitGone(t)
}

func tenInARow(t *testing.T, host *lab.Node) {
	for i := range 10 {
		host.Cloud(t, "k8s", "create", "--name", "again", "--workers", "0", "--wait")
		host.Cloud(t, "k8s", "delete", "again", "--yes", "--wait")
		(&lab.Tenant{Host: host, Project: "default", Name: "again"}).AwaitGone(t)
		t.Logf("%d of 10", i+1)
	}
}

func phase(host *lab.Node, cluster, want string) error {
	have, err := host.TryKubectl("get", "clusters.plasmacloud.io", cluster, "-n", namespace, "-o", "jsonpath={.status.phase}")
	if err == nil && have != want {
		err = fmt.Errorf("it is %s", have)
	}
	return err
}

func gone(host *lab.Node, cluster string) error {
	left, err := host.TryKubectl("get", "clusters.plasmacloud.io", cluster, "-n", namespace, "--ignore-not-found", "-o", "name")
	if err == nil && left != "" {
		err = fmt.Errorf("%s is there", left)
	}
	return err
}
