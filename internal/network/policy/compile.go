// Package policy enforces NetworkPolicy objects on a node. The compiler turns
// policies, pods and namespaces into the rules of this node's pods and knows
// nothing of the kernel; the controller follows the API and the node's leases
// and has the dataplane write what the compiler says.
package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// Pod is a pod of the cluster that has an address of its own. Those that share
// their node's are not policed, and no selector means them.
type Pod struct {
	Namespace, Name string
	Labels          labels.Set
	Addresses       []netip.Addr
	// Local pods are this node's, which has to enforce their policies.
	Local bool
	// Ports are those that have a name.
	Ports []NamedPort
}

// NamedPort is a port of a container that policies can name.
type NamedPort struct {
	Name     string
	Protocol string // tcp, udp or sctp
	Port     uint16
}

// Cluster is what the rules are made from.
type Cluster struct {
	Pods       []*Pod
	Namespaces map[string]labels.Set
	Policies   []*networkingv1.NetworkPolicy
}

// Compile makes the rules of this node's pods. What a policy says that makes no
// sense allows nothing; the error tells about it, and the rules are good all the
// same.
func Compile(cluster Cluster) (linux.PolicyRules, error) {
	c := &compiler{
		cluster: cluster, byNamespace: map[string][]*Pod{}, members: map[string][]*Pod{},
		rules: linux.PolicyRules{
			Ingress: newSide(), Egress: newSide(),
			Pods: map[string][]netip.Addr{}, Ports: map[string][]linux.PodPort{},
		},
	}
	for _, pod := range cluster.Pods {
		c.byNamespace[pod.Namespace] = append(c.byNamespace[pod.Namespace], pod)
	}
	var problems []error
	for _, policy := range cluster.Policies {
		if err := c.add(policy); err != nil {
			problems = append(problems, fmt.Errorf("network policy %s/%s: %w", policy.Namespace, policy.Name, err))
		}
	}
	return c.rules, errors.Join(problems...)
}

func newSide() linux.PolicySide {
	return linux.PolicySide{Pods: map[netip.Addr][]string{}, Policies: map[string][]linux.PolicyRule{}}
}

// compiler is one run of Compile.
type compiler struct {
	cluster     Cluster
	byNamespace map[string][]*Pod
	// members are the pods in the sets of rules.Pods.
	members map[string][]*Pod
	rules   linux.PolicyRules
}

// add compiles a policy, if it selects pods of this node.
func (c *compiler) add(policy *networkingv1.NetworkPolicy) error {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return fmt.Errorf("read podSelector: %w", err)
	}
	var selected []*Pod
	for _, pod := range c.byNamespace[policy.Namespace] {
		if pod.Local && selector.Matches(pod.Labels) {
			selected = append(selected, pod)
		}
	}
	if len(selected) == 0 {
		return nil
	}
	ingress, egress := directions(policy.Spec)
	var problems []error
	if ingress {
		problems = append(problems, c.addIngress(policy, selected))
	}
	if egress {
		problems = append(problems, c.addEgress(policy, selected))
	}
	return errors.Join(problems...)
}

// directions tells what a policy is about. Where it does not say, it is about
// ingress, and about egress if it has rules for that.
func directions(spec networkingv1.NetworkPolicySpec) (ingress, egress bool) {
	if len(spec.PolicyTypes) == 0 {
		return true, len(spec.Egress) > 0
	}
	return slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress),
		slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

func (c *compiler) addIngress(policy *networkingv1.NetworkPolicy, selected []*Pod) error {
	name := policy.Namespace + "/" + policy.Name
	enlist(c.rules.Ingress, name, selected)
	var problems []error
	for i, rule := range policy.Spec.Ingress {
		peers, err := c.peers(policy.Namespace, rule.From)
		if err != nil {
			problems = append(problems, fmt.Errorf("read from of ingress rule %d: %w", i, err))
		}
		ports, err := readPorts(rule.Ports)
		if err != nil {
			problems = append(problems, fmt.Errorf("read ports of ingress rule %d: %w", i, err))
		}
		for _, peer := range peers {
			// Names are those of the policed pods' own ports.
			set := c.namedPorts(fmt.Sprintf("ingress %s %d", name, i), ports.names, selected)
			c.allow(c.rules.Ingress, name, peer.rule, ports, set)
		}
	}
	return errors.Join(problems...)
}

func (c *compiler) addEgress(policy *networkingv1.NetworkPolicy, selected []*Pod) error {
	name := policy.Namespace + "/" + policy.Name
	enlist(c.rules.Egress, name, selected)
	var problems []error
	for i, rule := range policy.Spec.Egress {
		peers, err := c.peers(policy.Namespace, rule.To)
		if err != nil {
			problems = append(problems, fmt.Errorf("read to of egress rule %d: %w", i, err))
		}
		ports, err := readPorts(rule.Ports)
		if err != nil {
			problems = append(problems, fmt.Errorf("read ports of egress rule %d: %w", i, err))
		}
		for j, peer := range peers {
			// Names are those of the ports that the peers have, and each calls by
			// it what it likes.
			set := c.namedPorts(fmt.Sprintf("egress %s %d %d", name, i, j), ports.names, c.podsOf(peer))
			c.allow(c.rules.Egress, name, peer.rule, ports, set)
		}
	}
	return errors.Join(problems...)
}

// enlist closes the pods to what their policies do not allow.
func enlist(side linux.PolicySide, policy string, pods []*Pod) {
	side.Policies[policy] = nil
	for _, pod := range pods {
		for _, addr := range pod.Addresses {
			side.Pods[addr] = append(side.Pods[addr], policy)
		}
	}
}

func (c *compiler) allow(side linux.PolicySide, policy string, rule linux.PolicyRule, ports portMatch, named string) {
	if !ports.all && len(ports.ranges) == 0 && named == "" {
		return
	}
	rule.Ports, rule.NamedPorts = ports.ranges, named
	side.Policies[policy] = append(side.Policies[policy], rule)
}

// peer is one kind of peers of a rule.
type peer struct {
	// rule has nothing but the peers set.
	rule linux.PolicyRule
	// everybody is a rule without peers.
	everybody bool
}

// peers compiles the peers of a rule: all that are given by selectors become one
// set, each block is for itself.
func (c *compiler) peers(namespace string, given []networkingv1.NetworkPolicyPeer) ([]peer, error) {
	if len(given) == 0 {
		return []peer{{everybody: true}}, nil
	}
	var found []peer
	var selectors []peerSelector
	var problems []error
	for _, one := range given {
		if one.IPBlock != nil {
			rule, applies, err := readBlock(*one.IPBlock)
			if err != nil {
				problems = append(problems, err)
			} else if applies {
				found = append(found, peer{rule: rule})
			}
			continue
		}
		selector, err := readSelector(namespace, one)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		selectors = append(selectors, selector)
	}
	if len(selectors) > 0 {
		found = append(found, peer{rule: linux.PolicyRule{Set: c.set(selectors)}})
	}
	return found, errors.Join(problems...)
}

// peerSelector means pods by labels of theirs and of their namespaces.
type peerSelector struct {
	namespace  string // alone counts where it is set
	namespaces labels.Selector
	pods       labels.Selector
}

func (s peerSelector) String() string {
	if s.namespace != "" {
		return "pods " + s.pods.String() + " in " + s.namespace
	}
	return "pods " + s.pods.String() + " in namespaces " + s.namespaces.String()
}

func readSelector(namespace string, given networkingv1.NetworkPolicyPeer) (peerSelector, error) {
	s := peerSelector{pods: labels.Everything()}
	var err error
	if given.PodSelector != nil {
		if s.pods, err = metav1.LabelSelectorAsSelector(given.PodSelector); err != nil {
			return s, fmt.Errorf("read podSelector: %w", err)
		}
	}
	if given.NamespaceSelector == nil {
		s.namespace = namespace
		return s, nil
	}
	if s.namespaces, err = metav1.LabelSelectorAsSelector(given.NamespaceSelector); err != nil {
		return s, fmt.Errorf("read namespaceSelector: %w", err)
	}
	return s, nil
}

// set makes the set of the pods that any of the selectors means. It is named
// after them, so that rules that mean the same share it.
func (c *compiler) set(selectors []peerSelector) string {
	texts := make([]string, len(selectors))
	for i, selector := range selectors {
		texts[i] = selector.String()
	}
	slices.Sort(texts)
	name := strings.Join(slices.Compact(texts), "; ")
	if _, made := c.rules.Pods[name]; made {
		return name
	}
	members := map[*Pod]bool{}
	var addrs []netip.Addr
	for _, selector := range selectors {
		for namespace, pods := range c.byNamespace {
			if selector.namespace != "" && selector.namespace != namespace {
				continue
			}
			// A namespace that is not known yet has no labels that could match by
			// mistake, but not even an empty selector means it.
			known, exists := c.cluster.Namespaces[namespace]
			if selector.namespace == "" && (!exists || !selector.namespaces.Matches(known)) {
				continue
			}
			for _, pod := range pods {
				if !members[pod] && selector.pods.Matches(pod.Labels) {
					members[pod] = true
					addrs = append(addrs, pod.Addresses...)
					c.members[name] = append(c.members[name], pod)
				}
			}
		}
	}
	c.rules.Pods[name] = addrs
	return name
}

// podsOf are the pods among some peers.
func (c *compiler) podsOf(p peer) []*Pod {
	switch {
	case p.everybody:
		return c.cluster.Pods
	case p.rule.Set != "":
		return c.members[p.rule.Set]
	default:
		return slices.DeleteFunc(slices.Clone(c.cluster.Pods), func(pod *Pod) bool {
			return !slices.ContainsFunc(pod.Addresses, p.rule.Block.Contains)
		})
	}
}

// readBlock reads a block of addresses; those of IPv6 mean no pod.
func readBlock(block networkingv1.IPBlock) (rule linux.PolicyRule, applies bool, err error) {
	prefix, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return rule, false, fmt.Errorf("read ipBlock: %w", err)
	}
	rule.Block = prefix.Masked()
	if !prefix.Addr().Is4() {
		return rule, false, nil
	}
	var except []netip.Prefix
	for _, text := range block.Except {
		// Who reads past an exception would let more in than was meant.
		exception, err := netip.ParsePrefix(text)
		if err != nil {
			return rule, false, fmt.Errorf("read except of ipBlock: %w", err)
		}
		if exception.Addr().Is4() {
			except = append(except, exception.Masked())
		}
	}
	// Prefixes are disjoint, or one is in the other: then the larger says it all.
	slices.SortFunc(except, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	for _, exception := range except {
		if !slices.ContainsFunc(rule.Except, exception.Overlaps) {
			rule.Except = append(rule.Except, exception)
		}
	}
	return rule, true, nil
}
