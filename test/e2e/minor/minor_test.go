//go:build e2e

// Package minor is the scenario of an upgrade in place: a server and an agent of one Kubernetes minor version are
// stopped and started as the next. Objects and pods are there all the time, and the way back is refused.
package minor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestMinor(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l, server: l.Node(t, "server"), worker: l.Node(t, "worker")}
	versions := l.Release.Versions()
	if len(versions) < 2 {
		t.Fatalf("an upgrade needs a release with two minor versions, and this one has %v", versions)
	}
	s.newer = versions[0]
	for _, version := range versions {
		if s.older == "" && semver.MajorMinor(version) != semver.MajorMinor(s.newer) {
			s.older = version
		}
	}
	lab.Step(t, "a cluster of the older version", s.begin)
	lab.Step(t, "the server is upgraded", s.upgradeServer)
	lab.Step(t, "the agent follows", s.upgradeAgent)
	lab.Step(t, "the older version is refused", s.refuseOlder)
}

type scenario struct {
	lab            *lab.Lab
	server, worker *lab.Node
	older, newer   string
}

func (s *scenario) begin(t *testing.T) {
	s.server.Start(t, "server", "--kubernetes-version", semver.MajorMinor(s.older))
	s.worker.Start(t, "agent", "--server", s.server.URL(), "--token-file", s.lab.TokenFile(t, "own", s.server.Token(t)))
	s.awaitVersion(t, s.server, s.older)
	s.awaitVersion(t, s.worker, s.older) // without being told
	s.server.Kubectl(t, "create", "configmap", "kept", "--from-literal=word=old")
	s.server.Kubectl(t, "create", "secret", "generic", "kept", "--from-literal=word=old")
	for _, node := range []*lab.Node{s.server, s.worker} {
		s.server.Kubectl(t, "run", "on-"+node.Name, "--image="+lab.Toolbox, "--image-pull-policy=Never", "--labels=app=guest",
			`--overrides={"spec":{"terminationGracePeriodSeconds":1,"nodeName":"`+node.Name+`"}}`, "--", "sleep", "infinity")
	}
	s.server.AwaitPods(t, "app=guest")
	s.server.AwaitPods(t, "app=guest")
}

// awaitVersion waits until a node's kubelet reports a version, and the node is Ready.
func (s *scenario) awaitVersion(t *testing.T, node *lab.Node, want string) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, node.Name+" reports "+want, func() error {
		got, err := s.server.TryKubectl("get", "node", node.Name, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}")
		if err == nil && got != want {
			err = fmt.Errorf("it reports %q", got)
		}
		return err
	})
	s.server.AwaitNodeReady(t, node.Name)
}

func (s *scenario) upgradeServer(t *testing.T) {
	before := s.pods(t)
	s.server.Stop(t)
	s.server.Start(t, "server", "--kubernetes-version", semver.MajorMinor(s.newer))
	s.awaitVersion(t, s.server, s.newer)
	if version := s.server.Kubectl(t, "version"); !strings.Contains(version, "Server Version: "+s.newer) {
		t.Errorf("the API server is another one:\n%s", version)
	}
	for object, want := range map[string]string{"configmap/kept": "old", "secret/kept": "b2xk"} {
		if got := s.server.Kubectl(t, "get", object, "-o", "jsonpath={.data.word}"); got != want {
			t.Errorf("%s says %q, want %q", object, got, want)
		}
	}
	s.unchanged(t, before)
	s.works(t, "upgraded")
}

// pods describes the pods that have to survive, down to their containers.
func (s *scenario) pods(t *testing.T) string {
	t.Helper()
	return s.server.Kubectl(t, "get", "pods", "-l", "app=guest", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.phase} {.status.podIP} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
}

func (s *scenario) unchanged(t *testing.T, before string) {
	t.Helper()
	for _, pod := range []string{"on-server", "on-worker"} {
		lab.Eventually(t, time.Minute, pod+" answers", func() error {
			_, err := s.server.TryExec(pod, "true")
			return err
		})
	}
	if after := s.pods(t); after != before {
		t.Errorf("pods did not go on running:\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// works runs a new pod on every node, and one that finds the cluster's DNS, which was upgraded too.
func (s *scenario) works(t *testing.T, name string) {
	t.Helper()
	s.server.Kubectl(t, "rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=110s")
	for _, node := range []*lab.Node{s.server, s.worker} {
		pod := name + "-" + node.Name
		s.server.Kubectl(t, "run", pod, "--image="+lab.Toolbox, "--image-pull-policy=Never", "--restart=Never",
			`--overrides={"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+node.Name+`"}}}`, "--",
			"sh", "-c", "until nslookup kubernetes.default.svc.cluster.local; do sleep 0.5; done")
		s.server.Kubectl(t, "wait", "pod/"+pod, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=110s")
		if logs := s.server.Kubectl(t, "logs", pod); !strings.Contains(logs, "10.43.0.1") {
			t.Errorf("a new pod on %s finds: %s", node.Name, logs)
		}
	}
}

func (s *scenario) upgradeAgent(t *testing.T) {
	before := s.pods(t)
	s.worker.Stop(t)
	s.worker.Restart(t)
	s.awaitVersion(t, s.worker, s.newer)
	s.unchanged(t, before)
	s.works(t, "followed")
}

func (s *scenario) refuseOlder(t *testing.T) {
	s.server.Stop(t)
	intact := s.server.ReadTree(t)
	output := s.server.Refuses(t, "server", "--data-dir", s.server.Data.Path(), "--node-name", s.server.Name,
		"--kubernetes-version", semver.MajorMinor(s.older))
	for _, want := range []string{s.older + " is older", "last used by Kubernetes " + s.newer, "--kubernetes-version " + s.newer} {
		if !strings.Contains(output, want) {
			t.Errorf("the refusal does not say %q:\n%s", want, output)
		}
	}
	if changed := intact.Differences(s.server.ReadTree(t)); len(changed) > 0 {
		t.Errorf("the refused start changed %v", changed)
	}
	s.server.Restart(t)
	if got := s.server.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.word}"); got != "old" {
		t.Errorf("the ConfigMap says %q", got)
	}
}
