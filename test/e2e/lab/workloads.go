package lab

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

//go:embed workloads/*.yaml
var manifests embed.FS

// Workloads does what users of a cluster do with kubectl, in steps that build upon one another.
func (c *Tenant) Workloads(t *testing.T) {
	t.Helper()
	w := &workloads{tenant: c}
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"pods, logs, exec, port-forward", w.pods},
		{"deployments roll out, pause and roll back", w.deployments},
		{"services: ClusterIP, headless, NodePort, names", w.services},
		{"stateful sets, daemon sets, jobs and cron jobs", w.controllers},
		{"configuration, secrets, namespaces with a quota, events", w.objects},
	} {
		Step(t, step.name, step.run)
	}
}

// workloads is what a user of a cluster does with kubectl.
type workloads struct{ tenant *Tenant }

// apply applies one of the manifests.
func (w *workloads) apply(t *testing.T, name string) {
	t.Helper()
	content, err := manifests.ReadFile("workloads/" + name)
	if err != nil {
		t.Fatal(err)
	}
	w.tenant.Apply(t, string(content))
}

func (w *workloads) pods(t *testing.T) {
	c := w.tenant
	w.apply(t, "pods.yaml")
	c.Kubectl(t, "wait", "pods", "-l", "app in (talker,client)", "--for=condition=Ready", "--timeout=110s")
	followed := c.Host.Background(t, c.Args("logs", "-f", "--tail=1", "talker")...)
	Eventually(t, 30*time.Second, "logs -f shows what is said later", func() error {
		content, err := os.ReadFile(followed)
		if lines := bytes.Count(content, []byte("\n")); err == nil && lines < 5 {
			err = fmt.Errorf("%d lines so far", lines)
		}
		return err
	})
	if page := c.Kubectl(t, "exec", "talker", "--", "cat", "/www/index.html"); page != "a page of the talker" {
		t.Errorf("exec prints %q", page)
	}
	forwarded := c.Host.Background(t, c.Args("port-forward", "pod/talker", ":8080")...)
	var address string
	Eventually(t, 30*time.Second, "port-forward listens", func() error {
		content, err := os.ReadFile(forwarded)
		if err != nil {
			return err
		}
		match := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`).FindSubmatch(content)
		if match == nil {
			return fmt.Errorf("it says %q", content)
		}
		address = string(match[1])
		return nil
	})
	page, err := c.Host.Fetch("http://" + address)
	if err != nil || page != "a page of the talker\n" {
		t.Errorf("through port-forward: %q, %v", page, err)
	}
}

func (w *workloads) deployments(t *testing.T) {
	c := w.tenant
	w.apply(t, "web.yaml")
	w.edition(t, "first")
	c.Kubectl(t, "set", "env", "deployment/web", "EDITION=second")
	w.edition(t, "second")
	if sets := strings.Fields(c.Kubectl(t, "get", "replicasets", "-l", "app=web", "-o", "name")); len(sets) != 2 {
		t.Errorf("replica sets of two editions: %v", sets)
	}
	c.Kubectl(t, "rollout", "pause", "deployment/web")
	c.Kubectl(t, "set", "env", "deployment/web", "EDITION=third")
	if state := c.Kubectl(t, "get", "deployment/web", "-o", "jsonpath={.spec.paused}"); state != "true" {
		t.Errorf("paused: %q", state)
	}
	w.shows(t, "second")
	c.Kubectl(t, "rollout", "resume", "deployment/web")
	w.edition(t, "third")
	c.Kubectl(t, "rollout", "undo", "deployment/web")
	w.edition(t, "second")
}

func (w *workloads) edition(t *testing.T, edition string) {
	t.Helper()
	w.tenant.Kubectl(t, "rollout", "status", "deployment/web", "--timeout=110s")
	w.shows(t, edition)
}

// shows waits until the service, by its name, leads to pods of one edition only.
func (w *workloads) shows(t *testing.T, edition string) {
	t.Helper()
	Eventually(t, time.Minute, "the service shows the edition "+edition, func() error {
		for range 3 {
			page, err := w.tenant.Try("exec", "client", "--", "timeout", "5", "wget", "-q", "-O", "-", "http://web")
			if err != nil {
				return err
			}
			if !strings.HasPrefix(page, edition+" on web-") {
				return fmt.Errorf("it says %q", page)
			}
		}
		return nil
	})
}

func (w *workloads) services(t *testing.T) {
	c := w.tenant
	address := c.Kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	answer := c.Kubectl(t, "exec", "client", "--", "nslookup", "web.default.svc.cluster.local")
	if !strings.Contains(answer, "Address: "+address) {
		t.Errorf("the service's name leads to\n%s", answer)
	}
	Eventually(t, time.Minute, "the headless service's name leads to both pods", func() error {
		answer, err := c.Try("exec", "client", "--", "nslookup", "web-headless.default.svc.cluster.local")
		if err != nil {
			return err
		}
		pods := strings.Fields(c.Kubectl(t, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
		for _, pod := range pods {
			if len(pods) != 2 || !strings.Contains(answer+"\n", "Address: "+pod+"\n") {
				return fmt.Errorf("the pods are %v, and it leads to\n%s", pods, answer)
			}
		}
		return nil
	})
	port := c.Kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	for _, node := range strings.Fields(c.Kubectl(t, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`)) {
		// Every node hears of the edition that has just been replaced in its own time.
		Eventually(t, 30*time.Second, "NodePort of "+node, func() error {
			for range 4 {
				page, err := c.Try("exec", "client", "--", "timeout", "5", "wget", "-q", "-O", "-", "http://"+node+":"+port)
				if err != nil || !strings.Contains(page, " on web-") {
					return fmt.Errorf("it says %q: %w", page, err)
				}
			}
			return nil
		})
	}
}

func (w *workloads) controllers(t *testing.T) {
	c := w.tenant
	w.apply(t, "controllers.yaml")
	c.Kubectl(t, "rollout", "status", "statefulset/db", "--timeout=110s")
	c.Kubectl(t, "rollout", "status", "daemonset/agent", "--timeout=110s")
	c.Kubectl(t, "wait", "job/errand", "--for=condition=Complete", "--timeout=110s")
	if name := c.Kubectl(t, "exec", "client", "--", "timeout", "5", "wget", "-q", "-O", "-", "http://db-1.db:8080"); name != "db-1" {
		t.Errorf("the second pod of the stateful set, by its name: %q", name)
	}
	nodes := 0 // that take pods: those of a control plane may not
	for _, taints := range strings.Split(c.Kubectl(t, "get", "nodes", "-o", `jsonpath={range .items[*]}{"="}{.spec.taints[*].effect}{end}`), "=")[1:] {
		if !strings.Contains(taints, "NoSchedule") {
			nodes++
		}
	}
	if pods := len(strings.Fields(c.Kubectl(t, "get", "pods", "-l", "app=agent", "-o", "name"))); pods != nodes {
		t.Errorf("the daemon set has %d pods on %d nodes", pods, nodes)
	}
	c.Kubectl(t, "create", "job", "by-hand", "--from=cronjob/nightly")
	c.Kubectl(t, "wait", "job/by-hand", "--for=condition=Complete", "--timeout=110s")
}

func (w *workloads) objects(t *testing.T) {
	c := w.tenant
	w.apply(t, "objects.yaml")
	c.Kubectl(t, "wait", "-n", "team", "pod/reader", "--for=condition=Ready", "--timeout=110s")
	read := c.Kubectl(t, "exec", "-n", "team", "reader", "--", "sh", "-c", `echo "$(cat /settings/colour) $PASSWORD"`)
	if read != "sea green correct horse" {
		t.Errorf("what the pod reads: %q", read)
	}
	output, err := c.Try("run", "one-too-many", "-n", "team", "--image="+Toolbox, "--restart=Never")
	if err == nil || !strings.Contains(err.Error()+output, "exceeded quota") {
		t.Errorf("a pod beyond the quota: %v %s", err, output)
	}
	Eventually(t, 30*time.Second, "events tell of the pod", func() error {
		events, err := c.Try("events", "-n", "team", "--for=pod/reader")
		if err == nil && !strings.Contains(events, "Started") {
			err = fmt.Errorf("they are\n%s", events)
		}
		return err
	})
}
