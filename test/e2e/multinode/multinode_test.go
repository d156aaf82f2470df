//go:build e2e

// Package multinode is the scenario of a server with two agents, one of them on the other side of a router: how they
// join, what they may do, that their pods reach each other, and what happens when one of them goes away.
package multinode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestMultinode(t *testing.T) {
	l := lab.New(t)
	s := &scenario{
		lab: l, server: l.Node(t, "server"), near: l.Node(t, "near"),
		far: l.NodeOn(t, 1, "far"), stranger: l.Node(t, "stranger"),
	}
	lab.Step(t, "a server and two agents form a cluster", s.join)
	lab.Step(t, "wrong, expired and foreign tokens are refused", s.refuse)
	lab.Step(t, "agents hold nothing but a node's identity", s.identities)
	lab.Step(t, "pods reach each other on all nodes", s.deploy)
	lab.Step(t, "a service is reached by name from all nodes", s.service)
	lab.Step(t, "logs come from agents' nodes", s.logs)
	lab.Step(t, "a node leaves, and its pods move", s.leave)
	lab.Step(t, "it comes back", s.comeBack)
	lab.Step(t, "it is deleted and joins anew", s.joinAnew)
	lab.Step(t, "an agent is killed and starts again", s.killAgent)
}

type scenario struct {
	lab                         *lab.Lab
	server, near, far, stranger *lab.Node
}

func (s *scenario) nodes() []*lab.Node { return []*lab.Node{s.server, s.near, s.far} }

func (s *scenario) join(t *testing.T) {
	// Upstream waits 50 s until it gives a node up, which is long for a test.
	s.server.Start(t, "server", "--kube-controller-manager-arg", "node-monitor-grace-period=20s")
	own := s.lab.TokenFile(t, "own", s.server.Token(t))
	made := s.lab.TokenFile(t, "made", strings.TrimSpace(s.server.Run(t, "token", "create")))
	began := time.Now()
	s.near.Launch(t, "agent", "--server", s.server.URL(), "--token-file", own, "--node-label", "plasmacloud.io/place=near")
	s.far.Launch(t, "agent", "--server", s.server.URL(), "--token-file", made)
	for _, node := range []*lab.Node{s.near, s.far} {
		node.AwaitReady(t)
	}
	for _, node := range s.nodes() {
		s.server.AwaitNodeReady(t, node.Name)
		address := s.server.Kubectl(t, "get", "node", node.Name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
		if address != node.IP {
			t.Errorf("%s is registered with the address %s, not %s", node.Name, address, node.IP)
		}
	}
	t.Logf("both agents Ready %.1f s after their start", time.Since(began).Seconds())
	if got := s.server.Kubectl(t, "get", "nodes", "-l", "plasmacloud.io/place=near", "-o", "name"); got != "node/near" {
		t.Errorf("--node-label marks %q", got)
	}
}

func (s *scenario) refuse(t *testing.T) {
	own := s.server.Token(t)
	expired := strings.TrimSpace(s.server.Run(t, "token", "create", "--ttl", "1s"))
	id, _, _ := strings.Cut(expired[strings.Index(expired, "::")+2:], ".")
	lab.Eventually(t, 2*time.Minute, "a token of one second expires", func() error {
		if list := s.server.Run(t, "token", "list"); strings.Contains(list, id) && !strings.Contains(list, "expired") {
			return errors.New(list)
		}
		return nil
	})
	digit := "0"
	if own[3:4] == digit {
		digit = "1"
	}
	for name, c := range map[string]struct{ token, want string }{
		"wrong":   {own + "x", "token refused"},
		"expired": {expired, "token refused"},
		"foreign": {own[:3] + digit + own[4:], "belongs to another cluster"},
	} {
		file := s.lab.TokenFile(t, name, c.token)
		output := s.stranger.Refuses(t, "agent", "--data-dir", s.stranger.Data.Path(), "--server", s.server.URL(), "--token-file", file)
		if !strings.Contains(output, c.want) {
			t.Errorf("with a token that is %s the agent does not say %q, but:\n%s", name, c.want, output)
		}
		if _, secret, _ := strings.Cut(c.token, "::"); strings.Contains(output, secret) {
			t.Errorf("with a token that is %s the agent prints the secret", name)
		}
	}
	if nodes := s.server.Kubectl(t, "get", "nodes", "-o", "name"); strings.Contains(nodes, s.stranger.Name) {
		t.Errorf("a refused node is in the cluster: %s", nodes)
	}
}

func (s *scenario) leave(t *testing.T) {
	lab.Eventually(t, time.Minute, "the wanderer runs on far", func() error { return s.wandererOn("far") })
	s.far.Stop(t)
	s.server.AwaitNode(t, "far", "Unknown")
	lab.Eventually(t, 2*time.Minute, "the wanderer moves", func() error { return s.wandererOn("near", "server") })
}

// wandererOn wants a running wanderer on one of some nodes.
func (s *scenario) wandererOn(nodes ...string) error {
	got, err := s.server.TryKubectl("get", "pods", "-l", "app=wanderer", "-o",
		`jsonpath={range .items[?(@.status.phase=="Running")]}{.spec.nodeName}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for _, place := range strings.Fields(got) {
		if slices.Contains(nodes, place) {
			return nil
		}
	}
	return fmt.Errorf("it runs on %q", got)
}

func (s *scenario) comeBack(t *testing.T) {
	s.far.Restart(t)
	s.server.AwaitNodeReady(t, "far")
	s.awaitFleet(t)
	s.crossTraffic(t)
}

// joinAnew has an administrator remove the node with all that was on it. When it joins again it gets another range of
// addresses for its pods, and the other nodes have to follow.
func (s *scenario) joinAnew(t *testing.T) {
	before := s.server.Kubectl(t, "get", "node", "far", "-o", "jsonpath={.metadata.uid}")
	s.far.Stop(t)
	s.server.Kubectl(t, "delete", "node", "far")
	s.server.Kubectl(t, "delete", "pods", "-A", "--field-selector", "spec.nodeName=far", "--force", "--grace-period=0")
	s.far.Restart(t)
	s.server.AwaitNodeReady(t, "far")
	if after := s.server.Kubectl(t, "get", "node", "far", "-o", "jsonpath={.metadata.uid}"); after == before {
		t.Errorf("the node is still %s", before)
	}
	s.awaitFleet(t)
	s.crossTraffic(t)
	s.routes(t)
}

func (s *scenario) killAgent(t *testing.T) {
	const which = `jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}`
	pod := s.fleet(t)["near"].name
	before := s.server.Kubectl(t, "get", "pod", pod, "-o", which)
	s.near.Kill(t)
	s.near.Restart(t)
	s.server.AwaitNodeReady(t, "near")
	s.awaitFleet(t)
	if after := s.server.Kubectl(t, "get", "pod", pod, "-o", which); after != before {
		t.Errorf("the agent's pod did not survive: %s before, %s after", before, after)
	}
	s.crossTraffic(t)
}
