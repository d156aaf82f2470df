//go:build e2e

// Package ha is the scenario of three servers and two agents: any one server may be lost, the first one too, and the
// cluster goes on answering and taking orders; when the server comes back it is a full member again.
package ha

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestHA(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l}
	for _, name := range []string{"one", "two", "three"} {
		s.servers = append(s.servers, l.Node(t, name))
	}
	for _, name := range []string{"red", "blue"} {
		s.agents = append(s.agents, l.Node(t, name))
	}
	one, two, three := s.servers[0], s.servers[1], s.servers[2]
	lab.Step(t, "three servers and two agents form a cluster", s.form)
	lab.Step(t, "etcd has three voting members", func(t *testing.T) { s.healthy(t, s.servers...) })
	lab.Step(t, "a server that joined is killed: the cluster goes on", func(t *testing.T) { s.lose(t, two, one, three) })
	lab.Step(t, "it rejoins", func(t *testing.T) { s.rejoin(t, two) })
	lab.Step(t, "the first server is killed: the cluster goes on", func(t *testing.T) { s.lose(t, one, three, two) })
	lab.Step(t, "an agent that knew only the first server starts without it", s.restartAgent)
	lab.Step(t, "the first server rejoins", func(t *testing.T) { s.rejoin(t, one) })
	lab.Step(t, "the key of Secrets is rotated on all servers", s.rotate)
	lab.Step(t, "a server that lost its data joins anew", s.replace)
	lab.Step(t, "without a majority nothing is written, and afterwards all is", s.minority)
}

type scenario struct {
	lab     *lab.Lab
	servers []*lab.Node
	agents  []*lab.Node
	orders  int
}

func (s *scenario) form(t *testing.T) {
	began := time.Now()
	first := s.servers[0]
	first.Start(t, "server", "--cluster-init")
	token := s.lab.TokenFile(t, "own", first.Token(t))
	others := append(append([]*lab.Node{}, s.servers[1:]...), s.agents...)
	for i, node := range others {
		role := "server"
		if i >= len(s.servers)-1 {
			role = "agent"
		}
		// All at once: servers that join at the same time have to wait for each other.
		node.Launch(t, role, "--server", first.URL(), "--token-file", token)
	}
	for _, node := range others {
		node.AwaitReady(t)
	}
	for _, node := range append(others, first) {
		first.AwaitNodeReady(t, node.Name)
	}
	t.Logf("five nodes Ready %.1f s after the first one's start", time.Since(began).Seconds())
}

// rotate gives the cluster a new key for its Secrets; every server reads them afterwards.
func (s *scenario) rotate(t *testing.T) {
	first, last := s.servers[0], s.servers[len(s.servers)-1]
	first.Kubectl(t, "create", "secret", "generic", "word", "--from-literal=word=hidden")
	last.RotateSecretsKey(t, "key2")
	first.WantSecretsKey(t, "key2")
	for _, server := range s.servers {
		if got := server.Kubectl(t, "--server", server.URL(), "get", "secret", "word", "-o", "jsonpath={.data.word}"); got != "aGlkZGVu" {
			t.Errorf("%s says %q", server.Name, got)
		}
	}
}

// healthy wants three voting members, and those on the given servers to answer and to agree on a leader.
func (s *scenario) healthy(t *testing.T, servers ...*lab.Node) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, "etcd is healthy", func() error {
		var leader uint64
		for _, server := range servers {
			if err := s.member(t, server, &leader); err != nil {
				return fmt.Errorf("on %s: %w", server.Name, err)
			}
		}
		return nil
	})
}

func (s *scenario) member(t *testing.T, server *lab.Node, leader *uint64) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	client := server.Etcd(t)
	defer func() { _ = client.Close() }()
	members, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	voting := 0
	for _, member := range members.Members {
		if !member.IsLearner && member.Name != "" {
			voting++
		}
	}
	if voting != len(s.servers) || len(members.Members) != len(s.servers) {
		return fmt.Errorf("%d of %d members vote", voting, len(members.Members))
	}
	status, err := client.Status(ctx, client.Endpoints()[0])
	switch {
	case err != nil:
		return err
	case status.IsLearner || status.Leader == 0 || len(status.Errors) > 0:
		return fmt.Errorf("learner %v, leader %x, errors %v", status.IsLearner, status.Leader, status.Errors)
	case *leader != 0 && *leader != status.Leader:
		return fmt.Errorf("it follows %x, others %x", status.Leader, *leader)
	}
	*leader = status.Leader
	_, err = client.Put(ctx, "/e2e/"+server.Name, time.Now().String())
	return err
}

// lose kills a server with all its programs, and makes sure that nobody needs it.
func (s *scenario) lose(t *testing.T, victim *lab.Node, others ...*lab.Node) {
	victim.Kill(t)
	killed := time.Now()
	for _, server := range others {
		lab.Eventually(t, time.Minute, "the API answers on "+server.Name, func() error {
			_, err := server.TryKubectl("get", "--raw", "/readyz")
			return err
		})
	}
	t.Logf("the API answers %.1f s after the kill", time.Since(killed).Seconds())
	s.healthy(t, others...)
	for _, agent := range s.agents {
		s.agentAnswers(t, agent)
		s.order(t, others[0], agent)
	}
	t.Logf("new pods run on the agents %.1f s after the kill", time.Since(killed).Seconds())
}

// agentAnswers asks the API as the agent's own programs do: through its load balancer.
func (s *scenario) agentAnswers(t *testing.T, agent *lab.Node) {
	t.Helper()
	kubeconfig := filepath.Join(agent.Data.AgentPKI(), "kubelet.kubeconfig")
	lab.Eventually(t, time.Minute, "the API answers through the load balancer of "+agent.Name, func() error {
		got, err := agent.KubectlAs(kubeconfig, "get", "node", agent.Name, "-o", "name", "--request-timeout=5s")
		if err == nil && got != "node/"+agent.Name {
			err = errors.New(got)
		}
		return err
	})
}

// order has a pod run on a node from beginning to end: API, controllers, scheduler and kubelet have a part in it.
func (s *scenario) order(t *testing.T, server, agent *lab.Node) {
	t.Helper()
	s.orders++
	name := fmt.Sprintf("order-%d", s.orders)
	manifest := fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {kubernetes.io/hostname: %[2]s}
      containers:
        - {name: order, image: %[3]q, imagePullPolicy: Never, command: [echo, "%[1]s done on %[2]s"]}
`, name, agent.Name, lab.Toolbox)
	server.KubectlWith(t, manifest, "apply", "-f", "-")
	server.Kubectl(t, "wait", "job/"+name, "--for=condition=Complete", "--timeout=110s")
	if got, want := server.Kubectl(t, "logs", "job/"+name), name+" done on "+agent.Name; got != want {
		t.Errorf("the pod says %q, want %q", got, want)
	}
}

func (s *scenario) rejoin(t *testing.T, server *lab.Node) {
	server.Restart(t)
	s.healthy(t, s.servers...)
	server.AwaitNodeReady(t, server.Name)
	// What was ordered while it was away is there.
	server.Kubectl(t, "get", "job", fmt.Sprintf("order-%d", s.orders))
	s.order(t, server, server)
}

func (s *scenario) restartAgent(t *testing.T) {
	agent := s.agents[0]
	agent.Stop(t)
	agent.Restart(t)
	s.agentAnswers(t, agent)
	s.order(t, s.servers[1], agent)
}

// replace has a server come back on the same host without anything of what it was.
func (s *scenario) replace(t *testing.T) {
	server := s.servers[2]
	server.Stop(t)
	server.Run(t, "down", "--purge")
	server.LayToolbox(t)
	s.rejoin(t, server)
}

// minority kills two of three: the last one must not go on alone.
func (s *scenario) minority(t *testing.T) {
	one, two, three := s.servers[0], s.servers[1], s.servers[2]
	two.Kill(t)
	three.Kill(t)
	if output, err := one.TryKubectl("create", "configmap", "alone", "--request-timeout=10s"); err == nil {
		t.Errorf("a server without a majority takes orders: %s", output)
	}
	two.Relaunch(t)
	three.Relaunch(t)
	two.AwaitReady(t)
	three.AwaitReady(t)
	s.healthy(t, s.servers...)
	s.order(t, one, s.agents[1])
}
