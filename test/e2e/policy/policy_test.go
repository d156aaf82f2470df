//go:build e2e

// Package policy is the scenario of network policies on a server and an agent beyond a router: what they stop and let
// through between nodes, by Services and node ports, and that they can be switched off.
package policy

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

func TestPolicy(t *testing.T) {
	l := lab.New(t)
	s := &scenario{lab: l, server: l.Node(t, "server"), far: l.NodeOn(t, 1, "far")}
	lab.Step(t, "two nodes run servers and clients", s.settle)
	lab.Step(t, "without policies all is open", s.open)
	lab.Step(t, "default deny shuts all but the node itself", s.deny)
	lab.Step(t, "labels, namespaces and ports open", s.allow)
	lab.Step(t, "blocks of addresses and their exceptions", s.blocks)
	lab.Step(t, "egress, names and the node", s.egress)
	lab.Step(t, "policies go as they came", s.revoke)
	lab.Step(t, "policies can be switched off", s.switchOff)
}

type scenario struct {
	lab         *lab.Lab
	server, far *lab.Node
	pods        map[string]pod // by namespace/app/node
}

type pod struct{ namespace, name, ip string }

func (s *scenario) settle(t *testing.T) {
	s.server.Start(t, "server")
	s.far.Start(t, "agent", "--server", s.server.URL(), "--token-file", s.lab.TokenFile(t, "own", s.server.Token(t)))
	s.server.AwaitNodeReady(t, s.far.Name)
	s.server.Kubectl(t, "apply", "-f", "testdata/town.yaml")
	for _, namespace := range []string{"shop", "bank"} {
		s.server.Kubectl(t, "apply", "-n", namespace, "-f", "testdata/people.yaml")
		for _, set := range []string{"web", "client"} {
			s.server.Kubectl(t, "rollout", "status", "-n", namespace, "daemonset/"+set, "--timeout=110s")
		}
	}
	s.find(t)
}

// find learns where the pods are.
func (s *scenario) find(t *testing.T) {
	t.Helper()
	list := s.server.Kubectl(t, "get", "pods", "-A", "-l", "app in (web, client)", "-o",
		`jsonpath={range .items[*]}{.metadata.namespace} {.metadata.labels.app} {.spec.nodeName} {.metadata.name} {.status.podIP}{"\n"}{end}`)
	s.pods = map[string]pod{}
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("unexpected list of pods:\n%s", list)
		}
		s.pods[f[0]+"/"+f[1]+"/"+f[2]] = pod{namespace: f[0], name: f[3], ip: f[4]}
	}
	if len(s.pods) != 8 {
		t.Fatalf("there are %d pods:\n%s", len(s.pods), list)
	}
}

// url is where a server answers.
func (s *scenario) url(server string, port int) string {
	return fmt.Sprintf("http://%s:%d/", s.pods[server].ip, port)
}

const (
	service = "http://web.shop.svc.cluster.local/"
	patient = 20 * time.Second
)

// want says which URLs a client reaches.
type want map[string]bool

func all(reached bool, urls ...string) want {
	w := want{}
	for _, url := range urls {
		w[url] = reached
	}
	return w
}

func (w want) and(others want) want {
	maps.Copy(w, others)
	return w
}

// expect waits until a client reaches what it should, and nothing else. All is tried at once: what is shut takes as
// long as patience lasts.
func (s *scenario) expect(t *testing.T, what, client string, wanted want) {
	t.Helper()
	from := s.pods[client]
	var script strings.Builder
	for url := range wanted {
		fmt.Fprintf(&script, "(timeout 2 wget -q -O /dev/null %s && echo %s) & ", url, url)
	}
	script.WriteString("wait")
	began := time.Now()
	lab.Eventually(t, patient, what+" from "+client, func() error {
		output, err := s.server.TryKubectl("exec", "-n", from.namespace, from.name, "--", "sh", "-c", script.String()+" 2>/dev/null")
		if err != nil {
			return err
		}
		reached := all(true, strings.Fields(output)...)
		for url, should := range wanted {
			if reached[url] != should {
				return fmt.Errorf("%s: reached %v, want %v", url, reached[url], should)
			}
		}
		return nil
	})
	if took := time.Since(began); took > 4*time.Second {
		t.Logf("%s from %s took %.1f s", what, client, took.Seconds())
	}
}

// enforce applies a policy in the shop.
func (s *scenario) enforce(t *testing.T, name, spec string) {
	t.Helper()
	s.server.KubectlWith(t, fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: shop, name: %s}\nspec: %s\n", name, spec),
		"apply", "-f", "-")
}

// servers are the shop's, on both nodes.
func (s *scenario) servers(port int) []string {
	return []string{s.url("shop/web/server", port), s.url("shop/web/far", port)}
}

// nodePort is answered by the pod on the node itself, which sees who asks.
func nodePort(n *lab.Node) string { return "http://" + n.IP + ":30080/" }

func (s *scenario) open(t *testing.T) {
	for _, client := range []string{"shop/client/server", "shop/client/far", "bank/client/server", "bank/client/far"} {
		s.expect(t, "everything is open", client, all(true, append(s.servers(8080), service, nodePort(s.server), nodePort(s.far))...))
	}
}

func (s *scenario) deny(t *testing.T) {
	s.enforce(t, "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	for _, client := range []string{"shop/client/server", "shop/client/far", "bank/client/server", "bank/client/far"} {
		s.expect(t, "the shop is shut", client, all(false, append(s.servers(8080), service, nodePort(s.server))...).
			and(all(true, s.url("bank/web/server", 8080), s.url("bank/web/far", 8080))))
	}
	// A node reaches its own pods, and so does its kubelet, whose probes would have taken them from the Service.
	for _, node := range []*lab.Node{s.server, s.far} {
		if answer, err := node.Fetch(s.url("shop/web/"+node.Name, 8080)); err != nil || strings.TrimSpace(answer) != node.Name {
			t.Errorf("%s does not reach its own pod: %q, %v", node.Name, answer, err)
		}
	}
	if _, err := s.far.Fetch(nodePort(s.server)); err == nil {
		t.Error("a node reaches another's pod by its node port")
	}
	ready := s.server.Kubectl(t, "get", "daemonset", "web", "-n", "shop", "-o", "jsonpath={.status.numberReady}")
	if ready != "2" {
		t.Errorf("%s servers are ready, want 2", ready)
	}
}

func (s *scenario) allow(t *testing.T) {
	s.enforce(t, "web", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: http}]}]}`)
	for _, client := range []string{"shop/client/server", "shop/client/far"} {
		s.expect(t, "the own namespace's clients", client, all(true, append(s.servers(8080), service)...).and(all(false, s.servers(8081)...)))
	}
	s.expect(t, "the other namespace's clients", "bank/client/far", all(false, append(s.servers(8080), service)...))
	// A pod's request to a port of its own node comes as itself.
	s.expect(t, "the node port of the own node", "shop/client/server", all(true, nodePort(s.server)))

	s.enforce(t, "web", `{podSelector: {matchLabels: {app: web}}, ingress: [
		{from: [{namespaceSelector: {matchLabels: {team: bank}}, podSelector: {matchLabels: {app: client}}}], ports: [{port: 8081}]}]}`)
	for _, client := range []string{"bank/client/server", "bank/client/far"} {
		s.expect(t, "the other namespace's clients", client, all(true, s.servers(8081)...).and(all(false, append(s.servers(8080), service)...)))
	}
	s.expect(t, "the own namespace's clients", "shop/client/far", all(false, s.servers(8081)...))
}

func (s *scenario) blocks(t *testing.T) {
	s.enforce(t, "web", fmt.Sprintf(`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [
		{ipBlock: {cidr: 10.42.0.0/16, except: [%s/32]}}, {ipBlock: {cidr: %s/32}}]}]}`, s.pods["bank/client/far"].ip, s.far.IP))
	s.expect(t, "a pod in the block", "shop/client/far", all(true, append(s.servers(8080), service)...))
	s.expect(t, "the exception", "bank/client/far", all(false, append(s.servers(8080), service)...))
	lab.Eventually(t, patient, "a node in the block uses the other's port", func() error {
		_, err := s.far.Fetch(nodePort(s.server))
		return err
	})
	if _, err := s.server.Fetch(nodePort(s.far)); err == nil {
		t.Error("a node that is in no block uses the other's port")
	}
}

func (s *scenario) egress(t *testing.T) {
	s.server.Kubectl(t, "delete", "networkpolicy", "-n", "shop", "deny", "web")
	healthz := "http://" + s.server.IP + ":10256/healthz"
	elsewhere := "http://" + s.far.IP + ":10256/healthz"
	client := "shop/client/server"
	s.expect(t, "before", client, all(true, service, healthz, elsewhere, s.url("bank/web/far", 8080)))
	s.enforce(t, "client", `{podSelector: {matchLabels: {app: client}}, policyTypes: [Egress]}`)
	s.expect(t, "nothing", client, all(false, service, healthz, elsewhere, s.url("shop/web/server", 8080), s.url("bank/web/far", 8080)))
	s.expect(t, "another pod's egress", "bank/client/server", all(true, service, healthz))

	s.enforce(t, "client", fmt.Sprintf(`{podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [
		{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}],
		 ports: [{protocol: UDP, port: 53}, {port: 53}]},
		{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: http}]},
		{to: [{ipBlock: {cidr: %s/32}}], ports: [{port: 10000, endPort: 10300}]}]}`, s.server.IP))
	s.expect(t, "names, servers and the node", client,
		all(true, append(s.servers(8080), service, healthz)...).and(all(false, append(s.servers(8081), elsewhere, s.url("bank/web/far", 8080))...)))
}

func (s *scenario) revoke(t *testing.T) {
	s.server.Kubectl(t, "delete", "networkpolicy", "-n", "shop", "--all")
	s.expect(t, "open again", "shop/client/server", all(true, append(s.servers(8081), service, s.url("bank/web/far", 8080))...))
}

func (s *scenario) switchOff(t *testing.T) {
	s.enforce(t, "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	s.expect(t, "shut", "bank/client/server", all(false, s.servers(8080)...))
	s.server.Stop(t)
	s.server.Restart(t, "--disable-network-policy")
	s.far.Stop(t)
	s.far.Restart(t)
	s.expect(t, "open, whatever policies say", "bank/client/server", all(true, s.servers(8080)...))
}
