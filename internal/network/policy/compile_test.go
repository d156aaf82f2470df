package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// town is the cluster of the tests: shop/web and shop/db are this node's.
func town() Cluster {
	web := []NamedPort{{"http", "tcp", 8080}, {"http", "udp", 9090}, {"metrics", "tcp", 9100}}
	return Cluster{
		Namespaces: map[string]labels.Set{
			"shop": {"team": "shop"}, "bank": {"team": "bank", "trusted": "yes"}, "park": {},
		},
		Pods: []*Pod{
			{Namespace: "shop", Name: "web", Labels: labels.Set{"app": "web"}, Addresses: addrs("10.42.0.2"), Local: true, Ports: web},
			{Namespace: "shop", Name: "db", Labels: labels.Set{"app": "db", "tier": "data"}, Addresses: addrs("10.42.0.3"), Local: true},
			{Namespace: "shop", Name: "far", Labels: labels.Set{"app": "web"}, Addresses: addrs("10.42.1.2"), Ports: []NamedPort{{"http", "tcp", 80}}},
			{Namespace: "bank", Name: "teller", Labels: labels.Set{"app": "web"}, Addresses: addrs("10.42.1.3")},
			{Namespace: "bank", Name: "vault", Labels: labels.Set{"app": "vault"}, Addresses: addrs("10.42.1.4")},
			{Namespace: "park", Name: "bench", Labels: labels.Set{"app": "web"}, Addresses: addrs("10.42.1.5")},
			{Namespace: "void", Name: "lost", Labels: labels.Set{"app": "web"}, Addresses: addrs("10.42.1.6")},
		},
	}
}

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// where gives places of the tests short names.
func where(t *testing.T, name string) netip.Addr {
	t.Helper()
	for _, pod := range town().Pods {
		if pod.Name == name {
			return pod.Addresses[0]
		}
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		t.Fatalf("nobody is called %s", name)
	}
	return addr
}

// try tells whether the rules let a new connection pass, as the kernel would.
func try(rules linux.PolicyRules, from, to netip.Addr, protocol string, port uint16) bool {
	packet := func(side linux.PolicySide, pod, peer netip.Addr) bool {
		policies, policed := side.Pods[pod]
		return !policed || slices.ContainsFunc(policies, func(name string) bool {
			return slices.ContainsFunc(side.Policies[name], func(rule linux.PolicyRule) bool {
				return meansPeer(rules, rule, peer) && meansPort(rules, rule, to, protocol, port)
			})
		})
	}
	return packet(rules.Egress, from, to) && packet(rules.Ingress, to, from)
}

func meansPeer(rules linux.PolicyRules, rule linux.PolicyRule, peer netip.Addr) bool {
	switch {
	case rule.Set != "":
		return slices.Contains(rules.Pods[rule.Set], peer)
	case rule.Block.IsValid():
		return rule.Block.Contains(peer) && !slices.ContainsFunc(rule.Except, func(p netip.Prefix) bool { return p.Contains(peer) })
	default:
		return true
	}
}

func meansPort(rules linux.PolicyRules, rule linux.PolicyRule, to netip.Addr, protocol string, port uint16) bool {
	if len(rule.Ports) == 0 && rule.NamedPorts == "" {
		return true
	}
	return slices.Contains(rules.Ports[rule.NamedPorts], linux.PodPort{Address: to, Protocol: protocol, Port: port}) ||
		slices.ContainsFunc(rule.Ports, func(r linux.PortRange) bool {
			return r.Protocol == protocol && r.First <= port && port <= r.Last
		})
}

func policies(t *testing.T, text string) (list []*networkingv1.NetworkPolicy) {
	t.Helper()
	for _, document := range strings.Split(text, "---\n") {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p" + string(rune('0'+len(list)))}}
		if err := yaml.UnmarshalStrict([]byte(document), &policy.Spec); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		list = append(list, policy)
	}
	return list
}

// meanings are policies of the shop and what comes of them.
var meanings = map[string]struct {
	spec string
	// Attempts are: from to port[/protocol]; without protocol it is TCP.
	pass, stop []string
}{
	"nothing selected": {
		spec: `{podSelector: {matchLabels: {app: none}}, policyTypes: [Ingress, Egress]}`,
		pass: []string{"teller web 80", "web teller 80"},
	},
	"default deny of ingress": {
		spec: `{podSelector: {}, policyTypes: [Ingress]}`,
		pass: []string{"web 1.1.1.1 443", "db teller 80"},
		stop: []string{"teller web 80", "web db 5432", "1.1.1.1 web 80/udp", "far db 1/sctp"},
	},
	"default deny of both": {
		spec: `{podSelector: {}, policyTypes: [Ingress, Egress]}`,
		stop: []string{"teller web 80", "web db 5432", "web 1.1.1.1 443", "db teller 53/udp"},
	},
	"types that are not given": {
		spec: `{podSelector: {}, egress: [{to: [{podSelector: {}}]}]}`,
		pass: []string{"web far 80"},
		stop: []string{"web teller 80", "teller web 80"},
	},
	"no types and no egress rules": {
		spec: `{podSelector: {}}`,
		pass: []string{"web 1.1.1.1 80"},
		stop: []string{"far web 80"},
	},
	"everything allowed": {
		spec: `{podSelector: {}, ingress: [{}], egress: [{}], policyTypes: [Ingress, Egress]}`,
		pass: []string{"1.1.1.1 web 80", "web 1.1.1.1 53/udp", "vault db 9/sctp"},
	},
	"only some pods": {
		spec: `{podSelector: {matchExpressions: [{key: tier, operator: In, values: [data]}]}}`,
		pass: []string{"teller web 80"},
		stop: []string{"teller db 80"},
	},
	"peers of the own namespace": {
		spec: `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`,
		pass: []string{"far db 1", "web db 1"},
		stop: []string{"teller db 1", "db web 1", "bench web 1"},
	},
	"peers of namespaces": {
		spec: `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: bank}}}]}]}`,
		pass: []string{"teller web 1", "vault web 1"},
		stop: []string{"far web 1", "bench web 1", "lost web 1"},
	},
	"peers of all namespaces": {
		spec: `{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`,
		pass: []string{"teller web 1", "far web 1", "bench web 1"},
		stop: []string{"lost web 1", "1.1.1.1 web 1"},
	},
	"pods in namespaces": {
		spec: `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: trusted, operator: Exists}]}, podSelector: {matchLabels: {app: web}}}]}]}`,
		pass: []string{"teller web 1"},
		stop: []string{"vault web 1", "far web 1", "bench web 1"},
	},
	"one peer or another": {
		spec: `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: bank}}}, {podSelector: {matchLabels: {app: web}}}]}]}`,
		pass: []string{"vault web 1", "far web 1"},
		stop: []string{"bench web 1", "db web 1"},
	},
	"a block without its exceptions": {
		spec: `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.42.1.0/24, 10.42.1.4/32, 10.9.0.0/16]}}]}]}`,
		pass: []string{"10.1.1.1 web 1", "web db 1"},
		stop: []string{"vault web 1", "teller web 1", "10.9.3.3 web 1", "11.0.0.1 web 1"},
	},
	"a block of everything, and one of IPv6": {
		spec: `{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}}, {ipBlock: {cidr: "::/0"}}]}], policyTypes: [Egress]}`,
		pass: []string{"web 1.1.1.1 1", "web teller 1"},
		stop: []string{"web 169.254.169.254 80"},
	},
	"only a block of IPv6": {
		spec: `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "fd00::/8"}}]}]}`,
		stop: []string{"1.1.1.1 web 1", "far web 1"},
	},
	"ports by number": {
		spec: `{podSelector: {}, ingress: [{ports: [{port: 80}, {protocol: UDP, port: 53}, {protocol: SCTP, port: 9}]}]}`,
		pass: []string{"far web 80", "far web 53/udp", "1.1.1.1 web 9/sctp"},
		stop: []string{"far web 53", "far web 80/udp", "far web 81", "far web 9"},
	},
	"ranges that overlap": {
		spec: `{podSelector: {}, ingress: [{ports: [{port: 100, endPort: 200}, {port: 150, endPort: 300}, {port: 301}, {protocol: UDP, port: 200, endPort: 65535}]}]}`,
		pass: []string{"far web 100", "far web 250", "far web 301", "far web 65535/udp"},
		stop: []string{"far web 99", "far web 302", "far web 199/udp"},
	},
	"all ports of a protocol": {
		spec: `{podSelector: {}, ingress: [{ports: [{protocol: UDP}, {protocol: UDP, port: 53}]}]}`,
		pass: []string{"far web 1/udp", "far web 65535/udp"},
		stop: []string{"far web 1"},
	},
	"named ports of the pods themselves": {
		spec: `{podSelector: {}, ingress: [{ports: [{port: http}, {port: none}]}]}`,
		pass: []string{"far web 8080"},
		stop: []string{"far web 80", "far web 9090/udp", "far db 8080", "far web 9100"},
	},
	"named and numbered ports": {
		spec: `{podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{protocol: UDP, port: http}, {port: 5432}]}]}`,
		pass: []string{"far web 9090/udp", "far db 5432"},
		stop: []string{"far web 8080", "teller db 5432"},
	},
	"only a name that nobody has": {
		spec: `{podSelector: {}, ingress: [{ports: [{port: none}]}]}`,
		stop: []string{"far web 8080", "far db 1"},
	},
	"named ports of the peers": {
		spec: `{podSelector: {matchLabels: {app: db}}, egress: [{to: [{podSelector: {}}], ports: [{port: http}]}], policyTypes: [Egress]}`,
		pass: []string{"db far 80", "db web 8080"},
		stop: []string{"db far 8080", "db web 80", "db 1.1.1.1 80"},
	},
	"named ports of anybody": {
		spec: `{podSelector: {}, egress: [{ports: [{port: http}]}], policyTypes: [Egress]}`,
		pass: []string{"db far 80", "db web 8080"},
		stop: []string{"db teller 80", "db 1.1.1.1 80"},
	},
	"named ports in a block": {
		spec: `{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.42.1.0/24}}], ports: [{port: http}]}], policyTypes: [Egress]}`,
		pass: []string{"db far 80"},
		stop: []string{"db web 8080"},
	},
	"policies add up": {
		spec: `{podSelector: {}, policyTypes: [Ingress, Egress]}
---
{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 8080}]}]}
---
{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}
---
{podSelector: {matchLabels: {app: db}}, egress: [{ports: [{port: 1}]}], policyTypes: [Egress]}`,
		pass: []string{"teller web 8080", "db web 1"},
		stop: []string{"teller web 1", "db web 8080", "web db 1", "teller db 8080"},
	},
}

func TestPoliciesMeanWhatTheySay(t *testing.T) {
	for name, test := range meanings {
		t.Run(name, func(t *testing.T) {
			cluster := town()
			cluster.Policies = policies(t, test.spec)
			rules, err := Compile(cluster)
			if err != nil {
				t.Fatal(err)
			}
			for want, attempts := range map[bool][]string{true: test.pass, false: test.stop} {
				for _, attempt := range attempts {
					if got := passes(t, rules, attempt); got != want {
						t.Errorf("%s: passes %v, want %v\n%+v", attempt, got, want, rules)
					}
				}
			}
		})
	}
}

// passes reads an attempt and makes it.
func passes(t *testing.T, rules linux.PolicyRules, attempt string) bool {
	t.Helper()
	words := strings.Fields(attempt)
	number, protocol, given := strings.Cut(words[2], "/")
	if !given {
		protocol = "tcp"
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return try(rules, where(t, words[0]), where(t, words[1]), protocol, uint16(port))
}

func TestNonsenseAllowsNothing(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"selector of a peer": {`{podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: Like}]}}]}]}`, "podSelector"},
		"namespaces":         {`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {"?": a}}}]}]}`, "namespaceSelector"},
		"block":              {`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: here}}]}]}`, "ipBlock"},
		"exception":          {`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [there]}}]}]}`, "except"},
		"protocol":           {`{podSelector: {}, ingress: [{ports: [{protocol: ICMP}]}]}`, "ICMP"},
		"port":               {`{podSelector: {}, ingress: [{ports: [{port: 80, endPort: 70}]}]}`, "80 to 70"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := town()
			cluster.Policies = policies(t, test.spec)
			rules, err := Compile(cluster)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "shop/p0") {
				t.Errorf("got %v, want an error about %s of shop/p0", err, test.want)
			}
			if try(rules, where(t, "far"), where(t, "web"), "tcp", 80) {
				t.Error("it allows something")
			}
		})
	}
	cluster := town()
	cluster.Policies = policies(t, `{podSelector: {matchLabels: {"?": a}}}`)
	if _, err := Compile(cluster); err == nil {
		t.Error("a podSelector that cannot be read is taken")
	}
}

func TestRulesThatMeanTheSameShareASet(t *testing.T) {
	cluster := town()
	cluster.Policies = policies(t, `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}, {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 1}]}]}
---
{podSelector: {}, egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}`)
	rules, err := Compile(cluster)
	if err != nil || len(rules.Pods) != 1 {
		t.Errorf("got sets %v, %v", rules.Pods, err)
	}
}

func TestWhatIsKeptOfAPod(t *testing.T) {
	full := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Labels: map[string]string{"c": "d"}, Annotations: map[string]string{"e": "f"}},
		Spec: corev1.PodSpec{
			NodeName:       "n",
			Containers:     []corev1.Container{{Env: []corev1.EnvVar{{Name: "SECRET"}}, Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80}, {ContainerPort: 81}}}},
			InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}}},
		},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, Phase: corev1.PodRunning},
	}
	object, err := trimPod(full)
	if err != nil {
		t.Fatal(err)
	}
	kept := object.(*pod)
	if again, _ := trimPod(kept); again != object {
		t.Error("trimming twice makes a difference")
	}
	if kept.Annotations != nil || kept.node != "n" || kept.hostNetwork || kept.ended || !slices.Equal(kept.addresses, addrs("10.0.0.1")) ||
		!slices.Equal(kept.ports, []NamedPort{{"web", "tcp", 80}, {"dns", "udp", 53}}) {
		t.Errorf("kept %+v", kept)
	}
	for what, change := range map[string]func(*corev1.Pod){
		"labels":  func(p *corev1.Pod) { p.Labels = nil },
		"address": func(p *corev1.Pod) { p.Status.PodIPs = nil },
		"end":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"node":    func(p *corev1.Pod) { p.Spec.NodeName = "m" },
	} {
		other := full.DeepCopy()
		change(other)
		changed, _ := trimPod(other)
		if kept.same(changed.(*pod)) {
			t.Errorf("a change of the %s is not noticed", what)
		}
	}
	other := full.DeepCopy()
	other.ResourceVersion, other.Status.Message = "7", "news"
	if changed, _ := trimPod(other); !kept.same(changed.(*pod)) {
		t.Error("a change that does not matter is noticed")
	}
}
