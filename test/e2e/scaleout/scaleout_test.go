//go:build e2e

// Package scaleout is the scenario of a platform on a cluster of three nodes: what hosted clusters run on is spread over
// them, so that a node may be lost without a tenant's API being lost with it.
package scaleout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const (
	platform = "plasmacloud-system"
	project  = "default"
)

func TestScaleOut(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l}
	for _, name := range []string{"one", "two", "three"} {
		s.nodes = append(s.nodes, l.Node(t, name))
	}
	s.client = l.Node(t, "client")
	s.admin = s.nodes[0]
	s.address = l.Balancer(t, s.nodes...)
	lab.Step(t, "three servers form a cluster", s.form)
	lab.Step(t, "up installs onto it", s.up)
	lab.Step(t, "the datastore has a member on every node", s.datastore)
	lab.Step(t, "a cluster with two replicas is created", func(t *testing.T) { s.first = s.create(t, "first") })
	lab.Step(t, "its replicas are on different nodes", func(t *testing.T) { s.spread(t, s.first) })
	lab.Step(t, "a node with a replica is lost: the API keeps answering", s.lose)
	lab.Step(t, "the daemon's place is taken", s.takeOver)
	lab.Step(t, "the lost replica is replaced", func(t *testing.T) { s.spread(t, s.first) })
	lab.Step(t, "another cluster is created without the node", func(t *testing.T) { s.second = s.create(t, "second") })
	lab.Step(t, "the node is back: all is as before", s.restore)
	lab.Step(t, "clusters and platform are removed", s.remove)
}

type scenario struct {
	lab           *lab.Lab
	nodes         []*lab.Node
	admin, client *lab.Node // who manages the platform, and who merely uses a cluster
	lost          *lab.Node
	leader        string // the daemon's, before the node was lost
	killed        time.Time
	address       string
	first, second *lab.Tenant
}

func (s *scenario) form(t *testing.T) {
	began := time.Now()
	for _, node := range s.nodes {
		s.layImages(t, node)
	}
	// A node that says nothing for so long is taken for lost: half of Kubernetes' own time, with two signs of life in it.
	soon := "--kube-controller-manager-arg=node-monitor-grace-period=25s"
	first := s.nodes[0]
	first.Start(t, "server", "--cluster-init", soon)
	token := s.lab.TokenFile(t, "own", first.Token(t))
	for _, node := range s.nodes[1:] {
		node.Launch(t, "server", "--server", first.URL(), "--token-file", token, soon)
	}
	for _, node := range s.nodes[1:] {
		node.AwaitReady(t)
	}
	for _, node := range s.nodes {
		first.AwaitNodeReady(t, node.Name)
	}
	t.Logf("three nodes are Ready %.1f s after the first one's start", time.Since(began).Seconds())
}

// layImages gives a node what the platform and hosted clusters run on: there is no registry here.
func (s *scenario) layImages(t *testing.T, node *lab.Node) {
	t.Helper()
	version := s.lab.Release.Versions()[0]
	var refs []string
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", release.ImageKonnectivityServer, release.ImageNode} {
		image, err := s.lab.Release.Image(name, version)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, image.Refs...)
	}
	node.LayImages(t, "hosted", refs...)
	daemon, err := os.ReadFile(filepath.Join(s.lab.Release.Dir(), release.ImagesDir, "cloudd.tar"))
	if err == nil {
		err = os.WriteFile(filepath.Join(node.Data.Images(), "cloudd.tar"), daemon, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scenario) up(t *testing.T) {
	s.admin.Cloud(t, "up", "--kubeconfig", s.admin.Data.AdminKubeconfig(), "--endpoint-address", s.address,
		"--storage-dir", filepath.Join(s.lab.Dir, "storage"))
	if hosts := s.hosts(t, platform, "app=cloudd"); len(hosts) != 2 || hosts[0] == hosts[1] {
		t.Errorf("the daemons are on %v", hosts)
	}
}

// hosts are the nodes of a selector's pods that are ready and stay, sorted.
func (s *scenario) hosts(t testing.TB, namespace, selector string) []string {
	t.Helper()
	output := s.admin.Kubectl(t, "get", "pods", "-n", namespace, "-l", selector, "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status} {.metadata.deletionTimestamp}{"\n"}{end}`)
	var hosts []string
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == "True" {
			hosts = append(hosts, fields[0])
		}
	}
	slices.Sort(hosts)
	return hosts
}

func (s *scenario) datastore(t *testing.T) {
	lab.Eventually(t, 3*time.Minute, "three members are ready, on a node each", func() error {
		if hosts := s.hosts(t, platform, "plasmacloud.io/component=datastore"); !slices.Equal(hosts, []string{"one", "three", "two"}) {
			return fmt.Errorf("they are on %v", hosts)
		}
		return nil
	})
}

func (s *scenario) create(t *testing.T, name string) *lab.Tenant {
	began := time.Now()
	s.admin.Cloud(t, "k8s", "create", "--name", name, "--vpc", "default", "--workers", "1", "--control-plane-replicas", "2", "--wait")
	t.Logf("%s runs after %.1f s", name, time.Since(began).Seconds())
	tenant := s.admin.Tenant(t, project, name)
	tenant.AwaitNodes(t, 1)
	endpoint := s.admin.Kubectl(t, "get", "clusters.plasmacloud.io", name, "-n", "project-"+project, "-o", "jsonpath={.status.endpoint}")
	if !strings.HasPrefix(endpoint, "https://"+s.address+":") {
		t.Errorf("its API is at %s, the load balancer at %s", endpoint, s.address)
	}
	s.work(t, tenant, name)
	return tenant
}

// work has the cluster run something, and asks its node through the tunnel what it said.
func (s *scenario) work(t *testing.T, tenant *lab.Tenant, word string) {
	t.Helper()
	tenant.Apply(t, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: work, image: %[2]q, imagePullPolicy: Never, command: [echo, "%[1]s done"]}
`, word, lab.Toolbox))
	tenant.Kubectl(t, "wait", "job/"+word, "--for=condition=Complete", "--timeout=110s")
	lab.Eventually(t, time.Minute, "the log of the job", func() error {
		got, err := tenant.Try("logs", "job/"+word)
		if err == nil && got != word+" done" {
			err = errors.New(got)
		}
		return err
	})
}

func (s *scenario) replicas(t testing.TB, tenant *lab.Tenant) []string {
	t.Helper()
	return s.hosts(t, tenant.Infrastructure(t), "plasmacloud.io/component=control-plane")
}

func (s *scenario) spread(t *testing.T, tenant *lab.Tenant) {
	lab.Eventually(t, 3*time.Minute, "two replicas are ready, on a node each", func() error {
		if hosts := s.replicas(t, tenant); len(hosts) != 2 || hosts[0] == hosts[1] {
			return fmt.Errorf("they are on %v", hosts)
		}
		return nil
	})
	if !s.killed.IsZero() {
		t.Logf("there are two replicas again %.1f s after the kill", time.Since(s.killed).Seconds())
	}
}

// holder is the daemon that leads.
func (s *scenario) holder() (string, error) {
	return s.admin.TryKubectl("get", "lease", "cloudd", "-n", platform, "-o", "jsonpath={.spec.holderIdentity}")
}

// choose prefers the node on which the leading daemon is.
func (s *scenario) choose(t *testing.T) *lab.Node {
	t.Helper()
	var err error
	if s.leader, err = s.holder(); err != nil {
		t.Fatal(err)
	}
	leads := s.admin.Kubectl(t, "get", "pods", "-n", platform, "-l", "app=cloudd", "-o", `jsonpath={.items[?(@.metadata.name=="`+s.leader+`")].spec.nodeName}`)
	replicas := s.replicas(t, s.first)
	t.Logf("replicas on %v, leading daemon %s on %s", replicas, s.leader, leads)
	var victim *lab.Node
	for _, node := range s.nodes {
		if node == s.admin || !slices.Contains(replicas, node.Name) {
			continue
		}
		if victim == nil || node.Name == leads {
			victim = node
		}
	}
	return victim
}

// lose takes a node from the network and ends everything on it, while a client goes on asking.
func (s *scenario) lose(t *testing.T) {
	s.lost = s.choose(t)
	p := s.probe(t, s.first)
	p.during(t, 5*time.Second)
	s.lost.Unplug(t)
	s.killed = time.Now()
	s.lost.Kill(t)
	s.lost.Run(t, "down") // the pods, too
	t.Logf("%s is off", s.lost.Name)
	p.during(t, 75*time.Second)
	report := p.stop()
	t.Log(report)
	if report.longest > longestSilence {
		t.Errorf("nobody got an answer for %s", report.longest)
	}
	if report.settled > settledAfter {
		t.Errorf("requests failed for %s", report.settled)
	}
	// What was asked so far are questions. Who writes waits no longer than who asks.
	lab.Eventually(t, longestSilence, "something is written", func() error {
		_, err := s.first.Try("create", "configmap", "written", "--from-literal=while=lost")
		return err
	})
}

func (s *scenario) takeOver(t *testing.T) {
	lab.Eventually(t, time.Minute, "a daemon leads that is not on the lost node", func() error {
		now, err := s.holder()
		if err != nil {
			return err
		}
		node, err := s.admin.TryKubectl("get", "pods", "-n", platform, now, "-o", "jsonpath={.spec.nodeName}")
		if err == nil && node == s.lost.Name {
			err = fmt.Errorf("%s on %s still leads", now, node)
		}
		return err
	})
	lab.Eventually(t, 2*time.Minute, "two daemons are ready", func() error {
		if hosts := s.hosts(t, platform, "app=cloudd"); len(hosts) != 2 {
			return fmt.Errorf("they are on %v", hosts)
		}
		return nil
	})
	if hosts := s.hosts(t, platform, "plasmacloud.io/component=datastore"); len(hosts) != 2 {
		t.Errorf("the datastore's members are on %v", hosts)
	}
}

func (s *scenario) restore(t *testing.T) {
	began := time.Now()
	s.lost.PlugIn(t)
	s.lost.Restart(t)
	s.admin.AwaitNodeReady(t, s.lost.Name)
	s.datastore(t)
	t.Logf("all members are back %.1f s after the node's start", time.Since(began).Seconds())
	for i, tenant := range []*lab.Tenant{s.first, s.second} {
		s.spread(t, tenant)
		tenant.AwaitNodes(t, 1)
		s.work(t, tenant, fmt.Sprintf("afterwards-%d", i))
	}
	if word := s.first.Kubectl(t, "get", "configmap", "written", "-o", "jsonpath={.data.while}"); word != "lost" {
		t.Errorf("what was written meanwhile is %q", word)
	}
}

func (s *scenario) remove(t *testing.T) {
	for _, tenant := range []*lab.Tenant{s.first, s.second} {
		s.admin.Cloud(t, "k8s", "delete", tenant.Name, "--yes", "--wait")
		tenant.AwaitGone(t)
	}
	s.admin.Cloud(t, "down", "--kubeconfig", s.admin.Data.AdminKubeconfig(), "--purge", "--yes")
	for left := range strings.FieldsSeq(s.admin.Kubectl(t, "get", "namespaces,persistentvolumes,crds,clusterroles,clusterrolebindings", "-o", "name")) {
		if strings.Contains(left, "plasmacloud") {
			t.Errorf("it left %s", left)
		}
	}
}
