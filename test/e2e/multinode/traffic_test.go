//go:build e2e

package multinode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

type pod struct{ name, ip string }

func (s *scenario) deploy(t *testing.T) {
	s.server.Kubectl(t, "apply", "-f", "testdata/fleet.yaml")
	s.awaitFleet(t)
	s.crossTraffic(t)
	s.routes(t)
}

// awaitFleet waits until every node has its pod of the DaemonSet, and no other is left.
func (s *scenario) awaitFleet(t *testing.T) {
	t.Helper()
	s.server.Kubectl(t, "rollout", "status", "daemonset/fleet", "--timeout=110s")
	lab.Eventually(t, time.Minute, "every node has a pod", func() error {
		count, err := s.server.TryKubectl("get", "pods", "-l", "app=fleet", "-o", "name")
		if found := len(strings.Fields(count)); err == nil && found != len(s.nodes()) {
			err = fmt.Errorf("there are %d", found)
		}
		return err
	})
}

// fleet lists the DaemonSet's pods by their node.
func (s *scenario) fleet(t *testing.T) map[string]pod {
	t.Helper()
	list := s.server.Kubectl(t, "get", "pods", "-l", "app=fleet", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name} {.status.podIP}{"\n"}{end}`)
	pods := map[string]pod{}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("unexpected list of pods:\n%s", list)
		}
		pods[fields[0]] = pod{fields[1], fields[2]}
	}
	return pods
}

// crossTraffic moves a megabyte from every pod to every pod. Large bodies find out about a wrong MTU.
func (s *scenario) crossTraffic(t *testing.T) {
	t.Helper()
	pods := s.fleet(t)
	for to, server := range pods {
		want := s.server.Exec(t, server.name, "sha256sum", "/www/blob")
		want, _, _ = strings.Cut(want, " ")
		for from, client := range pods {
			if from == to {
				continue
			}
			// Routes follow a node's return within a moment.
			lab.Eventually(t, time.Minute, fmt.Sprintf("a pod on %s fetches from one on %s", from, to), func() error {
				got, err := s.server.TryExec(client.name, "sh", "-c", "timeout 20 wget -q -O - http://"+server.ip+":8080/blob | sha256sum")
				if err == nil && !strings.HasPrefix(got, want) {
					err = fmt.Errorf("got %s, want %s", got, want)
				}
				return err
			})
		}
	}
}

// routes makes sure that the tests above went the ways they were meant to: straight on a segment, by tunnel beyond it.
func (s *scenario) routes(t *testing.T) {
	pods := s.fleet(t)
	for _, c := range []struct {
		from, to *lab.Node
		want     string
	}{
		{s.server, s.near, "via " + s.near.IP + " dev eth0"},
		{s.near, s.server, "via " + s.server.IP + " dev eth0"},
		{s.server, s.far, "dev prism-"},
		{s.far, s.near, "dev prism-"},
	} {
		route, err := c.from.Route(pods[c.to.Name].ip)
		if err != nil || !strings.Contains(route, c.want) {
			t.Errorf("the way from %s to pods on %s is %q (%v), not %q", c.from.Name, c.to.Name, route, err, c.want)
		}
	}
}

func (s *scenario) service(t *testing.T) {
	want := slices.Sorted(maps.Keys(s.fleet(t)))
	for node, client := range s.fleet(t) {
		seen := map[string]bool{}
		lab.Eventually(t, time.Minute, "the service leads from "+node+" to every node", func() error {
			pages, err := s.server.TryExec(client.name, "sh", "-c", "for i in 1 2 3 4 5 6; do timeout 5 wget -q -O - http://fleet.default.svc.cluster.local; done")
			for _, page := range strings.Fields(pages) {
				seen[page] = true
			}
			if err == nil && len(seen) < len(want) {
				err = errors.New("not all seen yet")
			}
			return err
		})
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
			t.Errorf("from %s the service shows %v, want %v", node, got, want)
		}
	}
}

// logs need the agents' serving certificates: the API server verifies them.
func (s *scenario) logs(t *testing.T) {
	for node, pod := range s.fleet(t) {
		if got := s.server.Kubectl(t, "logs", pod.name); got != "serving on "+node {
			t.Errorf("the pod on %s says %q", node, got)
		}
	}
}
