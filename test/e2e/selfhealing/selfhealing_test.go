//go:build e2e

// Package selfhealing is the scenario of clusters that break and are mended without anybody asking: each fault is
// injected, and a repair, visible as a task with its reason, mends it within bounds. What could lose data is refused, and
// what does not help ends.
package selfhealing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const (
	project   = "default"
	namespace = v1alpha1.NamespacePrefix + project
	platform  = "plasmacloud-system"
)

func TestHosted(t *testing.T)   { scenario(t, hostedClusters) }
func TestMachines(t *testing.T) { scenario(t, machineClusters) }

// scenario hurts clusters on a platform of their own.
func scenario(t *testing.T, hurt func(t *testing.T, host *lab.Node)) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) {
		host.Cloud(t, "up", "--data-dir", host.Data.Path())
		hurry(t, host)
	})
	hurt(t, host)
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// hurry makes the daemon look at clusters more often than anybody needs, and give up early.
func hurry(t *testing.T, host *lab.Node) {
	t.Helper()
	patch := `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--audit-interval=2s"},` +
		`{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--repair-attempts=2"}]`
	host.Kubectl(t, "patch", "deployment/cloudd", "-n", platform, "--type=json", "-p", patch)
	host.Kubectl(t, "rollout", "status", "deployment/cloudd", "-n", platform, "--timeout=100s")
}

// admit makes a cluster, and waits until it runs and was looked at. The daemon was started anew a moment ago.
func admit(t *testing.T, host *lab.Node, name string, args ...string) *patient {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, "make "+name, func() error {
		output, err := host.TryCloud(append([]string{"k8s", "create", "--name", name}, args...)...)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return err
	})
	lab.Eventually(t, 10*time.Minute, name+" runs", func() error {
		state, err := host.TryKubectl("get", "clusters.plasmacloud.io", name, "-n", namespace, "-o", "jsonpath={.status.phase} {.status.progress}")
		if err == nil && !strings.HasPrefix(state, string(v1alpha1.PhaseRunning)) {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	p := &patient{Tenant: host.Tenant(t, project, name)}
	p.home = p.Infrastructure(t)
	p.healthy(t)
	return p
}

// patient is a cluster that is hurt.
type patient struct {
	*lab.Tenant
	home string // its namespace on the management cluster
}

func (p *patient) cluster(t *testing.T) *v1alpha1.Cluster {
	t.Helper()
	c := &v1alpha1.Cluster{}
	if err := json.Unmarshal([]byte(p.Host.Kubectl(t, "get", "clusters.plasmacloud.io", p.Name, "-n", namespace, "-o", "json")), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// repairs are the tasks that repair the cluster, the newest last.
func (p *patient) repairs(t *testing.T) []v1alpha1.Task {
	t.Helper()
	var all v1alpha1.TaskList
	if err := json.Unmarshal([]byte(p.Host.Kubectl(t, "get", "tasks.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster="+p.Name, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	repairs := slices.DeleteFunc(all.Items, func(task v1alpha1.Task) bool { return task.Spec.Operation != v1alpha1.OperationRepair })
	slices.SortFunc(repairs, func(a, b v1alpha1.Task) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return repairs
}

// condition is the cluster's condition of that type; an empty one where there is none.
func condition(c *v1alpha1.Cluster, kind string) (found struct{ Status, Reason, Message string }) {
	for _, each := range c.Status.Conditions {
		if each.Type == kind {
			found.Status, found.Reason, found.Message = string(each.Status), each.Reason, each.Message
		}
	}
	return found
}

// healthy waits until the cluster runs and nothing is wrong with it.
func (p *patient) healthy(t *testing.T) {
	t.Helper()
	lab.Eventually(t, 4*time.Minute, p.Name+" is healthy", func() error {
		c := p.cluster(t)
		health := condition(c, v1alpha1.ConditionHealthy)
		if c.Status.Phase != v1alpha1.PhaseRunning || health.Status != "True" || condition(c, v1alpha1.ConditionStalled).Status == "True" {
			return fmt.Errorf("it is %s, Healthy=%s %s: %s", c.Status.Phase, health.Status, health.Reason, health.Message)
		}
		return nil
	})
}

// heals hurts the cluster, and waits for a repair by itself whose reason says what was wrong, and for its end.
func (p *patient) heals(t *testing.T, within time.Duration, reason string, hurt func(t *testing.T)) {
	t.Helper()
	before := len(p.repairs(t))
	began := time.Now()
	hurt(t)
	var repair v1alpha1.Task
	lab.Eventually(t, within, "a repair with "+reason, func() error {
		repairs := p.repairs(t)
		for _, task := range repairs[min(before, len(repairs)):] {
			if task.Spec.Automatic && strings.Contains(task.Spec.Reason, reason) {
				repair = task
				return nil
			}
		}
		c := p.cluster(t)
		return fmt.Errorf("there are %d new ones; %s: %+v", len(repairs)-before, c.Status.Phase, c.Status.Health)
	})
	noticed := time.Since(began)
	p.healthy(t)
	t.Logf("noticed after %s, mended after %s: %s", noticed.Round(time.Second), time.Since(began).Round(time.Second), repair.Spec.Reason)
	if shown := p.Host.Cloud(t, "task", "show", repair.Name); !strings.Contains(shown, repair.Spec.Reason) || !strings.Contains(shown, "an audit") {
		t.Errorf("the task does not show why it is:\n%s", shown)
	}
}

// stalls waits until the cluster says that a person has to act, and why.
func (p *patient) stalls(t *testing.T, within time.Duration, reason string, says ...string) {
	t.Helper()
	lab.Eventually(t, within, p.Name+" is "+reason, func() error {
		c := p.cluster(t)
		health, stalled := condition(c, v1alpha1.ConditionHealthy), condition(c, v1alpha1.ConditionStalled)
		if health.Status != "False" || health.Reason != reason || stalled.Status != "True" {
			return fmt.Errorf("Healthy=%s %s: %s; Stalled=%s %s", health.Status, health.Reason, health.Message, stalled.Status, stalled.Message)
		}
		for _, part := range says {
			if !strings.Contains(stalled.Message, part) {
				return fmt.Errorf("%q does not say %q", stalled.Message, part)
			}
		}
		return nil
	})
	if shown := p.Host.Cloud(t, "k8s", "get", p.Name); !strings.Contains(shown, reason) {
		t.Errorf("the cluster does not show it:\n%s", shown)
	}
}

// machines are the names of the cluster's machines of a role.
func (p *patient) machines(t *testing.T, role v1alpha1.MachineRole) []string {
	t.Helper()
	var all v1alpha1.MachineList
	if err := json.Unmarshal([]byte(p.Host.Kubectl(t, "get", "machines.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster="+p.Name, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all.Items {
		if m.Spec.Role == role && m.DeletionTimestamp == nil {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}
