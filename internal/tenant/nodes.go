package tenant

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
)

// nodes are a cluster's nodes, as a reflector writes them.
type nodes struct {
	changed func(name string)
	known   chan struct{} // closed when there was a first list

	mu     sync.RWMutex
	byName map[string]*corev1.Node
	listed bool
}

var _ cache.ReflectorStore = (*nodes)(nil)

func newNodes(changed func(name string)) *nodes {
	return &nodes{changed: changed, known: make(chan struct{}), byName: map[string]*corev1.Node{}}
}

func (n *nodes) get(name string) *corev1.Node {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.byName[name]
}

// Add implements cache.ReflectorStore.
func (n *nodes) Add(object any) error { return n.Update(object) }

// Update implements cache.ReflectorStore.
func (n *nodes) Update(object any) error {
	if node, ok := object.(*corev1.Node); ok {
		n.mu.Lock()
		differs := n.put(node)
		n.mu.Unlock()
		if differs {
			n.changed(node.Name)
		}
	}
	return nil
}

// put keeps a node, and tells whether it differs from before in what matters here.
func (n *nodes) put(node *corev1.Node) bool {
	// These are most of a node, and nobody here asks for them.
	node.ManagedFields, node.Status.Images = nil, nil
	before := n.byName[node.Name]
	n.byName[node.Name] = node
	return before == nil || !alike(before, node)
}

// alike tells whether two states of a node are the same but for heartbeats.
func alike(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		ReadyStatus(a) == ReadyStatus(b) && LacksPodNetwork(a) == LacksPodNetwork(b) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses)
}

// ReadyStatus is a node's condition Ready; Unknown where nobody has told yet.
func ReadyStatus(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return corev1.ConditionUnknown
}

// LacksPodNetwork tells whether a node would be ready if somebody installed a pod network. Its kubelet names all that is
// missing, in brackets where it is more than one thing.
func LacksPodNetwork(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Message, "container runtime network not ready")
	})
}

// Delete implements cache.ReflectorStore.
func (n *nodes) Delete(object any) error {
	if node, ok := object.(*corev1.Node); ok {
		n.mu.Lock()
		delete(n.byName, node.Name)
		n.mu.Unlock()
		n.changed(node.Name)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (n *nodes) Replace(objects []any, _ string) error {
	n.mu.Lock()
	gone := n.byName
	n.byName = make(map[string]*corev1.Node, len(objects))
	var changed []string
	for _, object := range objects {
		node, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		if before := gone[node.Name]; before != nil {
			n.byName[node.Name] = before
			delete(gone, node.Name)
		}
		if n.put(node) {
			changed = append(changed, node.Name)
		}
	}
	first := !n.listed
	n.listed = true
	n.mu.Unlock()
	if first {
		close(n.known)
	}
	for name := range gone {
		changed = append(changed, name)
	}
	for _, name := range changed {
		n.changed(name)
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (n *nodes) Resync() error { return nil }
