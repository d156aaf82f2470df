package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
	"plasmacloud.io/plasmacloud/internal/network/policy"
)

// unstreamed says what the fake clientset would say itself if it were asked.
type unstreamed[L runtime.Object] struct{ policy.Source[L] }

func (unstreamed[L]) IsWatchListSemanticsUnSupported() bool { return true }

func (c *cluster) policies() *policy.Sources {
	return &policy.Sources{
		Pods:       unstreamed[*corev1.PodList]{c.client.CoreV1().Pods("")},
		Namespaces: unstreamed[*corev1.NamespaceList]{c.client.CoreV1().Namespaces()},
		Policies:   unstreamed[*networkingv1.NetworkPolicyList]{c.client.NetworkingV1().NetworkPolicies("")},
	}
}

func (c *cluster) namespace(name string, labels map[string]string) {
	c.t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.client.CoreV1().Namespaces().Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// pod schedules a pod; the node is yet to start it.
func (c *cluster) pod(node, namespace, name string) *corev1.Pod {
	c.t.Helper()
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
		}}},
	}
	created, err := c.client.CoreV1().Pods(namespace).Create(context.Background(), object, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return created
}

// run starts a scheduled pod on its node, tells the API its address, and has it
// answer on a few ports.
func (c *cluster) run(h *host, namespace, name string) *netlab.Pod {
	c.t.Helper()
	object := c.pod(h.config.NodeName, namespace, name)
	started := netlab.NewPod(c.t, name)
	started.Home = namespace
	if err := h.runtime().Add(started, nil); err != nil {
		c.t.Fatal(err)
	}
	object.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: started.Address.String(), PodIPs: []corev1.PodIP{{IP: started.Address.String()}},
	}
	if _, err := c.client.CoreV1().Pods(namespace).UpdateStatus(context.Background(), object, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	started.ServeTCP(":80")
	started.ServeTCP(":81")
	started.ServeUDP(":53")
	return started
}

// enforce makes or replaces a policy.
func (c *cluster) enforce(namespace, name, spec string) {
	c.t.Helper()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
		c.t.Fatal(err)
	}
	client := c.client.NetworkingV1().NetworkPolicies(namespace)
	_, err := client.Create(context.Background(), object, metav1.CreateOptions{})
	if err != nil {
		_, err = client.Update(context.Background(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) revoke(namespace, name string) {
	c.t.Helper()
	if err := c.client.NetworkingV1().NetworkPolicies(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// policed is two nodes across a router with policies switched on, and pods:
// shop/web and shop/db on a, shop/far and bank/teller on b.
type policed struct {
	*cluster
	t                    *testing.T
	a, b                 *host
	web, db, far, teller *netlab.Pod
}

func newPoliced(t *testing.T) *policed {
	t.Helper()
	c, a, b := acrossRouter(t, 1500)
	c.namespace("shop", map[string]string{"team": "shop"})
	c.namespace("bank", map[string]string{"team": "bank"})
	for _, h := range []*host{a, b} {
		h.policies = c.policies()
		h.start(c)
	}
	p := &policed{cluster: c, t: t, a: a, b: b}
	p.web, p.db = c.run(a, "shop", "web"), c.run(a, "shop", "db")
	p.far, p.teller = c.run(b, "shop", "far"), c.run(b, "bank", "teller")
	return p
}

// open waits until a server is reached.
func (p *policed) open(what string, from *netlab.Namespace, address string) {
	p.t.Helper()
	eventually(p.t, what+" is open", func() error {
		if from.BlockedTCP(address) {
			return fmt.Errorf("%s is not reached", address)
		}
		return nil
	})
}

// shut waits until a server is not reached any more.
func (p *policed) shut(what string, from *netlab.Namespace, address string) {
	p.t.Helper()
	eventually(p.t, what+" is shut", func() error {
		if !from.BlockedTCP(address) {
			return fmt.Errorf("%s is reached", address)
		}
		return nil
	})
}

func at(pod *netlab.Pod, port int) string { return fmt.Sprintf("%s:%d", pod.Address, port) }

func TestIngressPolicies(t *testing.T) {
	p := newPoliced(t)
	p.open("without policies", p.teller.Namespace, at(p.web, 80))

	began := time.Now()
	p.enforce("shop", "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	p.shut("denied to another namespace", p.teller.Namespace, at(p.web, 80))
	t.Logf("shut after %v, of which a probe takes 400ms", time.Since(began))
	p.shut("denied to the own namespace", p.far.Namespace, at(p.web, 80))
	p.shut("denied on the own node", p.db.Namespace, at(p.web, 80))
	p.open("egress of a pod whose ingress is denied", p.web.Namespace, at(p.teller, 80))
	p.open("the node itself", p.a.Namespace, at(p.web, 80))
	if !p.far.BlockedUDP(at(p.web, 53)) {
		t.Error("UDP is not denied")
	}

	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, ingress: [
		{from: [{namespaceSelector: {matchLabels: {team: bank}}}], ports: [{port: http}]},
		{from: [{podSelector: {matchLabels: {app: far}}}], ports: [{protocol: UDP, port: 50, endPort: 60}]}]}`)
	p.open("a named port to a namespace", p.teller.Namespace, at(p.web, 80))
	p.shut("another port", p.teller.Namespace, at(p.web, 81))
	p.shut("another pod", p.teller.Namespace, at(p.db, 80))
	p.shut("TCP to a pod that may use UDP", p.far.Namespace, at(p.web, 80))
	mustReach(t, "UDP to a pod that may use it", p.far.Address.String(), func() (netip.Addr, error) { return p.far.SendUDP(at(p.web, 53), 10) })

	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, ingress: [
		{from: [{ipBlock: {cidr: 10.42.0.0/16, except: [`+p.far.Address.String()+`/32, 10.42.77.0/24]}}], ports: [{port: 80}, {port: 81}]}]}`)
	p.open("a block", p.teller.Namespace, at(p.web, 81))
	p.shut("the exception of a block", p.far.Namespace, at(p.web, 80))

	p.revoke("shop", "deny")
	p.revoke("shop", "web")
	p.open("after the policies", p.far.Namespace, at(p.web, 81))
}

func TestEgressPolicies(t *testing.T) {
	p := newPoliced(t)
	p.a.ServeTCP(":10250")
	node := "192.168.1.2:10250"
	p.open("the node, without policies", p.web.Namespace, node)
	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`)
	p.shut("another node's pod", p.web.Namespace, at(p.far, 80))
	p.shut("the own node's pod", p.web.Namespace, at(p.db, 80))
	p.shut("the node", p.web.Namespace, node)
	p.open("another pod to the node", p.db.Namespace, node)
	p.open("ingress of a pod whose egress is denied", p.far.Namespace, at(p.web, 80))

	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [
		{to: [{ipBlock: {cidr: 192.168.1.2/32}}], ports: [{port: 10250}]},
		{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: teller}}}], ports: [{port: http}]}]}`)
	p.open("the node, allowed", p.web.Namespace, node)
	p.open("a pod, allowed", p.web.Namespace, at(p.teller, 80))
	p.shut("another port of it", p.web.Namespace, at(p.teller, 81))
	p.shut("another pod", p.web.Namespace, at(p.far, 80))

	// Both sides have a say.
	p.enforce("bank", "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	p.shut("a pod that does not want it", p.web.Namespace, at(p.teller, 80))
}

// Services, NodePorts and host ports are judged by where they lead to. The table
// stands for kube-proxy's.
func TestPoliciesJudgeAfterTranslation(t *testing.T) {
	p := newPoliced(t)
	outside := netlab.New(t)
	netlab.Connect(t, 1500,
		netlab.End{Namespace: p.a.Namespace, Interface: "second", Address: "172.16.0.1/24"},
		netlab.End{Namespace: outside, Interface: "eth0", Address: "172.16.0.9/24"})
	p.a.Nft(fmt.Sprintf(`table ip services {
		chain pre { type nat hook prerouting priority -100
			ip daddr 10.43.0.1 tcp dport 8000 dnat to %[1]s:80
			ip daddr 10.43.0.2 tcp dport 8000 dnat to %[2]s:80
			fib daddr type local tcp dport 30080 dnat to %[1]s:80
		}
		chain out { type nat hook output priority -100
			ip daddr 10.43.0.1 tcp dport 8000 dnat to %[1]s:80
		}
		chain post { type nat hook postrouting priority 100
			ip saddr %[1]s ip daddr %[1]s masquerade
			oifname != "lo" ct status dnat ip saddr 172.16.0.0/24 masquerade
		}
	}`, p.web.Address, p.far.Address))
	service, remote, nodePort := "10.43.0.1:8000", "10.43.0.2:8000", "172.16.0.1:30080"
	for name, from := range map[string]*netlab.Namespace{"db": p.db.Namespace, "node": p.a.Namespace, "web itself": p.web.Namespace} {
		p.open("the service to "+name, from, service)
	}
	p.open("the node port", outside, nodePort)

	p.enforce("shop", "deny", `{podSelector: {}, policyTypes: [Ingress, Egress]}`)
	p.shut("the service", p.db.Namespace, service)
	p.shut("the node port", outside, nodePort)
	p.shut("the remote service", p.db.Namespace, remote)
	p.open("the service to the node", p.a.Namespace, service)
	p.open("the service to the pod that it leads to", p.web.Namespace, service)

	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, ingress: [
		{from: [{podSelector: {matchLabels: {app: db}}}, {ipBlock: {cidr: 172.16.0.9/32}}], ports: [{port: 80}]}]}`)
	p.enforce("shop", "db", `{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [
		{to: [{podSelector: {}}], ports: [{port: 80}]}]}`)
	p.enforce("shop", "far", `{podSelector: {matchLabels: {app: far}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}`)
	p.open("the service, by the pod's port", p.db.Namespace, service)
	p.open("the remote service", p.db.Namespace, remote)
	p.open("the node port, by the client's address", outside, nodePort)
}

func TestConnectionsOutliveNewPolicies(t *testing.T) {
	p := newPoliced(t)
	var conn net.Conn
	p.far.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp4", at(p.web, 80), 5*time.Second)
		return err
	})
	defer func() { _ = conn.Close() }()
	p.enforce("shop", "deny", `{podSelector: {}, policyTypes: [Ingress, Egress]}`)
	p.shut("a new connection", p.far.Namespace, at(p.web, 80))
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), "1000\n") {
		t.Errorf("a connection from before got %q, %v", answer, err)
	}
}

// A new pod is closed from its first packet on, until its policies are known.
func TestNewPodsAreNeverOpen(t *testing.T) {
	p := newPoliced(t)
	p.enforce("shop", "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	p.shut("a pod from before", p.far.Namespace, at(p.web, 80))

	unknown := p.a.runtime().Start(t, "unknown", nil)
	unknown.ServeTCP(":80")
	if !p.far.BlockedTCP(at(unknown, 80)) || !unknown.BlockedTCP(at(p.teller, 80)) {
		t.Error("a pod that the API does not know is open")
	}
	p.open("the node to a pod that the API does not know", p.a.Namespace, at(unknown, 80))
	began := time.Now()
	p.pod("a", "default", "unknown")
	p.open("once it is known", unknown.Namespace, at(p.teller, 80))
	t.Logf("open %v after the API told of it", time.Since(began))

	for i := range 5 {
		name := fmt.Sprintf("late-%d", i)
		p.pod("a", "shop", name)
		late := netlab.NewPod(t, name)
		late.Home = "shop"
		// The runtime's own interface is enough for a server, so that it answers
		// at the very moment at which the pod has an address.
		late.ServeTCP(":80")
		if err := p.a.runtime().Add(late, nil); err != nil {
			t.Fatal(err)
		}
		if !p.far.BlockedTCP(at(late, 80)) {
			t.Error("a new pod is open")
		}
		began := time.Now()
		p.open("egress of a new pod", late.Namespace, at(p.teller, 80))
		t.Logf("a new pod may send %v after its start", time.Since(began))
	}
}

func TestPoliciesSurviveRestartsAndDamage(t *testing.T) {
	p := newPoliced(t)
	p.enforce("shop", "deny", `{podSelector: {}, policyTypes: [Ingress]}`)
	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: far}}}], ports: [{port: 80}, {port: http}]}]}`)
	p.shut("denied", p.teller.Namespace, at(p.web, 80))
	p.open("allowed", p.far.Namespace, at(p.web, 80))
	// A busy machine may seem shut before it is.
	eventually(t, "both policies are written", func() error {
		if rules := p.rules(); !strings.Contains(rules, `"shop/deny shop/web"`) {
			return errors.New(rules)
		}
		return nil
	})
	whole := p.rules()

	p.a.stop()
	if diff := netlab.Difference(whole, p.rules()); diff != "" {
		t.Errorf("stopping changed the rules:\n%s", diff)
	}
	p.revoke("shop", "web")
	p.a.start(p.cluster)
	p.shut("denied since the node was away", p.far.Namespace, at(p.web, 80))
	eventually(t, "nothing is left of a policy that is gone", func() error {
		if rules := p.rules(); strings.Contains(rules, "ports-") || strings.Contains(rules, "shop/web") || strings.Contains(rules, " pods-") {
			return errors.New(rules)
		}
		return nil
	})
	p.enforce("shop", "web", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: far}}}], ports: [{port: 80}, {port: http}]}]}`)
	p.open("allowed again", p.far.Namespace, at(p.web, 80))
	eventually(t, "the rules as before", func() error { return p.differs(whole) })

	p.a.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() })
	eventually(t, "the rules are back", func() error { return p.differs(whole) })

	p.a.stop()
	p.a.policies = nil
	p.a.start(p.cluster)
	p.open("policies switched off", p.teller.Namespace, at(p.web, 80))
	p.a.stop()
	p.a.policies = p.cluster.policies()
	p.a.start(p.cluster)
	p.shut("and on again", p.teller.Namespace, at(p.web, 80))
	p.a.stop()
	p.a.cleanup()
	if rules := p.rules(); rules != "" {
		t.Errorf("cleanup left:\n%s", rules)
	}
}

// rules are the node's policy table, without what packets change.
func (p *policed) rules() string {
	p.t.Helper()
	var text string
	p.a.Do(func() error {
		output, err := exec.Command("nft", "--stateless", "list", "ruleset").CombinedOutput()
		if _, table, found := strings.Cut(string(output), "table inet "+p.a.dataplane().PolicyTableName()); found {
			text, _, _ = strings.Cut(table, "\n}")
		}
		return err
	})
	return text
}

func (p *policed) differs(whole string) error {
	if diff := netlab.Difference(whole, p.rules()); diff != "" {
		return fmt.Errorf("rules differ:\n%s", diff)
	}
	return nil
}
