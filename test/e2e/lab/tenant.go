package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/release"
)

// Tenant is a cluster that the platform on a node has made, seen with its administrator's kubeconfig.
type Tenant struct {
	Host          *Node
	Project, Name string
	Kubeconfig    string
}

// Tenant fetches the kubeconfig of a cluster.
func (n *Node) Tenant(t testing.TB, project, name string) *Tenant {
	t.Helper()
	tenant := &Tenant{Host: n, Project: project, Name: name, Kubeconfig: filepath.Join(n.lab.Dir, project+"-"+name+".kubeconfig")}
	content := n.Cloud(t, "k8s", "kubeconfig", name, "--project", project)
	if err := os.WriteFile(tenant.Kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return tenant
}

// Args are those of a kubectl that talks to the tenant's cluster.
func (c *Tenant) Args(args ...string) []string {
	return append([]string{"--kubeconfig=" + c.Kubeconfig}, args...)
}

// Kubectl runs kubectl as the cluster's administrator.
func (c *Tenant) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return c.Host.Kubectl(t, c.Args(args...)...)
}

// Apply applies a manifest.
func (c *Tenant) Apply(t testing.TB, manifest string, args ...string) {
	t.Helper()
	c.Host.KubectlWith(t, manifest, c.Args(append([]string{"apply", "-f", "-"}, args...)...)...)
}

// Try is Kubectl where failing is the caller's business.
func (c *Tenant) Try(args ...string) (string, error) { return c.Host.TryKubectl(c.Args(args...)...) }

// Infrastructure is the namespace, on the management cluster, of what the cluster is made of.
func (c *Tenant) Infrastructure(t testing.TB) string {
	t.Helper()
	name := c.Host.Kubectl(t, "get", "namespaces", "-l", "plasmacloud.io/cluster="+c.Name+",plasmacloud.io/project-id="+c.Project, "-o", "jsonpath={.items[*].metadata.name}")
	if name == "" || strings.Contains(name, " ") {
		t.Fatalf("namespaces of cluster %s/%s: %q, want one", c.Project, c.Name, name)
	}
	return name
}

// ReadyNodes are the names of the nodes that do their job.
func (c *Tenant) ReadyNodes() ([]string, error) {
	output, err := c.Try("get", "nodes", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Unschedulable bool }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		return nil, err
	}
	var ready []string
	for _, node := range list.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && !node.Spec.Unschedulable {
				ready = append(ready, node.Metadata.Name)
			}
		}
	}
	return ready, nil
}

// AwaitNodes waits until the cluster has so many nodes, which are pods, and all of them are ready, and gives each the
// toolbox image, for which there is no registry here.
func (c *Tenant) AwaitNodes(t testing.TB, count int) []string {
	t.Helper()
	ready := c.AwaitReady(t, count)
	for _, node := range ready {
		c.giveToolbox(t, node)
	}
	return ready
}

// AwaitReady waits until the cluster has so many nodes and all of them are ready.
func (c *Tenant) AwaitReady(t testing.TB, count int) (ready []string) {
	t.Helper()
	Eventually(t, 4*time.Minute, fmt.Sprintf("%s has %d ready nodes", c.Name, count), func() (err error) {
		if ready, err = c.ReadyNodes(); err != nil {
			return err
		}
		all, err := c.Try("get", "nodes", "-o", "name")
		if err != nil {
			return err
		}
		if total := len(strings.Fields(all)); total != count || len(ready) != count {
			return fmt.Errorf("%d of %d are ready", len(ready), total)
		}
		return nil
	})
	return ready
}

func (c *Tenant) giveToolbox(t testing.TB, node string) {
	t.Helper()
	image, err := c.Host.lab.Release.Image(release.ImageToolbox, "")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := c.Host.lab.Release.Export(&archive, image.Refs...); err != nil {
		t.Fatal(err)
	}
	// Nodes that k8shost made have its container runtime, others one of their own.
	const script = `for socket in "$@"; do
	[ -S "$socket" ] && exec /usr/local/lib/plasmacloud/release/bin/ctr --address "$socket" --namespace k8s.io images import --local -
done
exit 1`
	ctr := []string{"exec", "-i", "-n", c.Infrastructure(t), node, "--", "sh", "-c", script, "sh",
		datadir.New("/var/lib/k8shost").ContainerdSocket(), hostsetup.Socket}
	c.Host.KubectlWith(t, archive.String(), ctr...)
}

// AwaitGone waits until nothing on the management cluster is left of the cluster.
func (c *Tenant) AwaitGone(t testing.TB) {
	t.Helper()
	Eventually(t, 2*time.Minute, "nothing is left of "+c.Name, func() error {
		left, err := c.Host.TryKubectl("get", "namespaces,clusterroles,clusterrolebindings,persistentvolumes", "-l", "plasmacloud.io/cluster="+c.Name+",plasmacloud.io/project-id="+c.Project, "-o", "name")
		if err == nil && left != "" {
			err = fmt.Errorf("there are %s", strings.Join(strings.Fields(left), ", "))
		}
		if err != nil {
			return err
		}
		left, err = c.Host.TryKubectl("get", "clusters,nodegroups,machines,tasks,secrets", "-n", "project-"+c.Project, "-l", "plasmacloud.io/cluster="+c.Name, "-o", "name")
		if err == nil && left != "" {
			err = fmt.Errorf("there are %s", strings.Join(strings.Fields(left), ", "))
		}
		return err
	})
}
