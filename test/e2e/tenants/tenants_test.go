//go:build e2e

// Package tenants is the scenario of two tenants on one platform: their clusters reach neither one another's API, nor
// datastore, nor nodes; people get in with the platform's tokens under their roles, and nobody else does; and a cluster
// carries a hundred pods in ten namespaces.
package tenants

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestTenants(t *testing.T) {
	l := lab.New(t)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	var red, blue *lab.Tenant
	lab.Step(t, "two projects with a cluster each", func(t *testing.T) {
		for i, project := range []string{"red", "blue"} {
			host.Cloud(t, "project", "create", "--name", project, "--org", "default")
			lab.Eventually(t, time.Minute, "its namespace", func() error {
				_, err := host.TryKubectl("get", "rolebinding", "project-admin-binding", "-n", "project-"+project)
				return err
			})
			host.Cloud(t, "account", "create", "--project", project, "--name", "local", "--provider", "local")
			host.Cloud(t, "vpc", "create", "--project", project, "--name", "main", "--cidr", fmt.Sprintf("10.%d.0.0/16", 7+i))
			host.Cloud(t, "k8s", "create", "--project", project, "--name", "own", "--vpc", "main", "--workers", "1")
		}
		for _, project := range []string{"red", "blue"} {
			lab.Eventually(t, 5*time.Minute, project+"'s cluster runs", func() error {
				phase, err := host.TryKubectl("get", "clusters.plasmacloud.io/own", "-n", "project-"+project, "-o", "jsonpath={.status.phase}")
				if err == nil && phase != "RUNNING" {
					err = fmt.Errorf("it is %s", phase)
				}
				return err
			})
		}
		red, blue = host.Tenant(t, "red", "own"), host.Tenant(t, "blue", "own")
		red.AwaitNodes(t, 1)
		blue.AwaitNodes(t, 1)
	})
	lab.Step(t, "neither reaches the other", func(t *testing.T) {
		walls(t, red, blue)
		walls(t, blue, red)
	})
	lab.Step(t, "people get in with their tokens", func(t *testing.T) { people(t, red, blue) })
	lab.Step(t, "short-lived kubeconfigs are for a role", func(t *testing.T) { roles(t, red) })
	lab.Step(t, "a hundred pods in ten namespaces", func(t *testing.T) { crowd(t, red) })
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// walls tries, from a machine of one tenant, every way into the other's parts. Its own parts answer.
func walls(t *testing.T, from, to *lab.Tenant) {
	t.Helper()
	host := from.Host
	machine := host.Kubectl(t, "get", "pods", "-n", from.Infrastructure(t), "-l", "plasmacloud.io/component=machine", "-o", "jsonpath={.items[0].metadata.name}")
	own, others := parts(t, from), parts(t, to)
	others["its own API"] = own["API"]
	others["the datastore"] = host.Kubectl(t, "get", "pods", "-n", "plasmacloud-system", "datastore-0", "-o", "jsonpath={.status.podIP}") + ":2379"
	others["the management API"] = host.Kubectl(t, "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}") + ":443"
	others["the management host's kubelet"] = host.IP + ":10250"
	// All at once: an address that does not answer takes its time.
	var script strings.Builder
	for what, address := range others {
		place, port, _ := strings.Cut(address, ":")
		fmt.Fprintf(&script, "(timeout 5 bash -c 'echo > /dev/tcp/%s/%s' 2>/dev/null && echo \"%s\") &\n", place, port, what)
	}
	reached := host.Kubectl(t, "exec", "-n", from.Infrastructure(t), machine, "--", "bash", "-c", script.String()+"wait")
	if reached != "its own API" {
		t.Errorf("a machine of %s reaches %q of what it or %s has, want its own API alone", from.Project, reached, to.Project)
	}
	if output, err := host.TryKubectl("--kubeconfig="+from.Kubeconfig, "--server="+endpoint(t, to), "--insecure-skip-tls-verify", "get", "nodes"); err == nil {
		t.Errorf("%s's administrator is somebody to %s's API: %s", from.Project, to.Project, output)
	}
}

func endpoint(t *testing.T, c *lab.Tenant) string {
	t.Helper()
	return c.Host.Kubectl(t, "get", "clusters.plasmacloud.io", c.Name, "-n", "project-"+c.Project, "-o", "jsonpath={.status.endpoint}")
}

// parts are the addresses of what a tenant's cluster consists of.
func parts(t *testing.T, c *lab.Tenant) map[string]string {
	t.Helper()
	namespace := c.Infrastructure(t)
	api := strings.TrimPrefix(endpoint(t, c), "https://")
	_, port, _ := strings.Cut(api, ":")
	pod := func(component string) string {
		return c.Host.Kubectl(t, "get", "pods", "-n", namespace, "-l", "plasmacloud.io/component="+component, "-o", "jsonpath={.items[0].status.podIP}")
	}
	return map[string]string{
		"API":                   api,
		"the API's pod":         pod("control-plane") + ":" + port,
		"the API's service":     c.Host.Kubectl(t, "get", "service", "control-plane", "-n", namespace, "-o", "jsonpath={.spec.clusterIP}") + ":" + port,
		"a node's kubelet":      pod("machine") + ":10250",
		"a node's remote shell": pod("machine") + ":22",
	}
}

// as is a kubeconfig of the tenant's cluster with a token instead of a certificate.
func as(t *testing.T, c *lab.Tenant, name, token string) *lab.Tenant {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {Token: token}}
	other := *c
	other.Kubeconfig = c.Kubeconfig + "." + name
	if err := clientcmd.WriteToFile(*config, other.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &other
}

func people(t *testing.T, red, blue *lab.Tenant) {
	host := red.Host
	tokens := map[string]string{}
	for name, role := range map[string]string{"robot": "red=admin", "reader": "red=viewer"} {
		host.Cloud(t, "user", "create", name, "--service-account", "--org", "default", "--member", role)
		var made struct{ Token string }
		output := host.Cloud(t, "token", "create", "--user", name, "--ttl", "1h", "-o", "json")
		if err := json.Unmarshal([]byte(output[strings.Index(output, "{"):]), &made); err != nil || made.Token == "" {
			t.Fatalf("no token for %s: %v\n%s", name, err, output)
		}
		tokens[name] = made.Token
	}
	robot, reader := as(t, red, "robot", tokens["robot"]), as(t, red, "reader", tokens["reader"])
	lab.Eventually(t, time.Minute, "the project's administrator is let in", func() error {
		_, err := robot.Try("create", "namespace", "made-by-robot")
		if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
			return nil
		}
		return err
	})
	lab.Eventually(t, time.Minute, "the project's viewer is let in", func() error {
		_, err := reader.Try("get", "pods", "-A")
		return err
	})
	for what, args := range map[string][]string{
		"make something":     {"create", "namespace", "made-by-reader"},
		"read secrets":       {"get", "secrets", "-A"},
		"delete a namespace": {"delete", "namespace", "made-by-robot"},
	} {
		if _, err := reader.Try(args...); err == nil || !strings.Contains(err.Error(), "Forbidden") && !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("a viewer can %s: %v", what, err)
		}
	}
	for name, token := range tokens {
		if _, err := as(t, blue, name, token).Try("get", "namespaces"); err == nil {
			t.Errorf("%s of project red is let into blue's cluster", name)
		}
	}
	if _, err := as(t, red, "nobody", "nonsense").Try("get", "namespaces"); err == nil || !strings.Contains(err.Error(), "Unauthorized") && !strings.Contains(err.Error(), "logged in") {
		t.Errorf("a token that is none: %v", err)
	}
	host.Cloud(t, "user", "disable", "robot")
	lab.Eventually(t, 30*time.Second, "a disabled user is refused", func() error {
		if _, err := robot.Try("get", "namespaces"); err == nil {
			return fmt.Errorf("the token is good still")
		}
		return nil
	})
}

func roles(t *testing.T, c *lab.Tenant) {
	viewer := *c
	viewer.Kubeconfig = c.Kubeconfig + ".view"
	content := c.Host.Cloud(t, "k8s", "kubeconfig", c.Name, "--project", c.Project, "--role", "view", "--ttl", "10m")
	if err := os.WriteFile(viewer.Kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := viewer.Try("get", "pods", "-A"); err != nil {
		t.Errorf("a viewer: %v", err)
	}
	if _, err := viewer.Try("create", "namespace", "by-viewer"); err == nil {
		t.Error("a viewer makes a namespace")
	}
	who := viewer.Kubectl(t, "auth", "whoami")
	if !regexp.MustCompile(`Username\s+\S+`).MatchString(who) || !strings.Contains(who, "plasmacloud:view") {
		t.Errorf("the viewer is\n%s", who)
	}
}

// crowd runs a hundred pods in ten namespaces.
func crowd(t *testing.T, c *lab.Tenant) {
	var manifest strings.Builder
	for i := range 10 {
		fmt.Fprintf(&manifest, `apiVersion: v1
kind: Namespace
metadata: {name: crowd-%[1]d}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: crowd, namespace: crowd-%[1]d}
spec:
  replicas: 10
  selector: {matchLabels: {app: crowd}}
  template:
    metadata: {labels: {app: crowd}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - {name: crowd, image: %[2]s, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
---
`, i, lab.Toolbox)
	}
	c.Apply(t, manifest.String())
	lab.Eventually(t, 6*time.Minute, "all hundred run", func() error {
		running, err := c.Try("get", "pods", "-A", "-l", "app=crowd", "--field-selector=status.phase=Running", "-o", "name")
		if count := len(strings.Fields(running)); err == nil && count != 100 {
			err = fmt.Errorf("%d do", count)
		}
		return err
	})
	for i := range 10 {
		c.Kubectl(t, "delete", "namespace", fmt.Sprintf("crowd-%d", i), "--wait=false")
	}
}
