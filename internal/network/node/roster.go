package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// Nodes is all that the daemon needs of the Kubernetes API, and all that its
// identity must be allowed. CoreV1().Nodes() of any clientset is one.
type Nodes interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// roster is the cluster's nodes as last heard of.
type roster struct {
	store      cache.Store
	controller cache.Controller
	changed    func()
	complete   atomic.Bool
}

func newRoster(nodes Nodes, changed func(), log *slog.Logger) *roster {
	r := &roster{changed: changed}
	logger := logr.FromSlogHandler(log.Handler())
	r.store, r.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &logger,
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return nodes.List(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return nodes.Watch(ctx, opts)
			},
		}, nodes),
		ObjectType: &corev1.Node{},
		Transform:  essence,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			DeleteFunc: func(any) { changed() },
			UpdateFunc: func(before, after any) {
				if describe(before.(*corev1.Node)) != describe(after.(*corev1.Node)) {
					changed()
				}
			},
		},
	})
	return r
}

// run follows the API until ctx ends.
func (r *roster) run(ctx context.Context) {
	go func() {
		select {
		case <-r.controller.HasSyncedChecker().Done():
			r.complete.Store(true)
			r.changed()
		case <-ctx.Done():
		}
	}()
	r.controller.RunWithContext(ctx)
}

// essence drops what the daemon does not look at: a Node is some kilobytes.
func essence(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, ResourceVersion: node.ResourceVersion, CreationTimestamp: node.CreationTimestamp,
		},
		Spec:   corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
		Status: corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}

// place is where a node is in the network; fields are zero until known.
type place struct {
	podCIDR netip.Prefix
	nodeIP  netip.Addr
}

func (p place) known() bool { return p.podCIDR.IsValid() && p.nodeIP.IsValid() }

// describe reads a node's first IPv4 pod CIDR and internal address.
func describe(node *corev1.Node) place {
	var p place
	for _, cidr := range append(slices.Clone(node.Spec.PodCIDRs), node.Spec.PodCIDR) {
		if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Addr().Is4() {
			p.podCIDR = prefix.Masked()
			break
		}
	}
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(address.Address); err == nil && addr.Is4() {
			p.nodeIP = addr
			break
		}
	}
	return p
}

// self returns this node's place, as far as it is known.
func (r *roster) self(name string) place {
	object, exists, err := r.store.GetByKey(name)
	if err != nil || !exists {
		return place{}
	}
	return describe(object.(*corev1.Node))
}

// peers returns the other nodes that can be routed to, and what is wrong with
// those that cannot. A node may claim any CIDR when it registers; one outside
// of the cluster's, or one that is another's, would draw traffic to it that is
// not its own.
func (r *roster) peers(name string, self place, cluster netip.Prefix) (peers []linux.Peer, refused []string) {
	nodes := make([]*corev1.Node, 0, len(r.store.ListKeys()))
	for _, object := range r.store.List() {
		nodes = append(nodes, object.(*corev1.Node))
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	taken := []linux.Peer{{Name: name, NodeIP: self.nodeIP, PodCIDR: self.podCIDR}}
	for _, node := range nodes {
		p := describe(node)
		if node.Name == name || !p.known() {
			continue
		}
		peer := linux.Peer{Name: node.Name, NodeIP: p.nodeIP, PodCIDR: p.podCIDR}
		if reason := refusal(peer, taken, cluster); reason != "" {
			refused = append(refused, fmt.Sprintf("node %s: %s", peer.Name, reason))
			continue
		}
		taken = append(taken, peer)
	}
	return taken[1:], refused
}

func refusal(peer linux.Peer, taken []linux.Peer, cluster netip.Prefix) string {
	if !contains(cluster, peer.PodCIDR) {
		return fmt.Sprintf("pod CIDR %s is not in the cluster CIDR %s", peer.PodCIDR, cluster)
	}
	if peer.NodeIP.IsLoopback() || peer.NodeIP.IsMulticast() || peer.NodeIP.IsUnspecified() {
		return fmt.Sprintf("internal address %s is not a host's", peer.NodeIP)
	}
	for _, other := range taken {
		if other.PodCIDR.Overlaps(peer.PodCIDR) {
			return fmt.Sprintf("pod CIDR %s is node %s's", peer.PodCIDR, other.Name)
		}
		if other.NodeIP == peer.NodeIP {
			return fmt.Sprintf("internal address %s is node %s's", peer.NodeIP, other.Name)
		}
	}
	return ""
}

func contains(outer, inner netip.Prefix) bool {
	return outer.Overlaps(inner) && outer.Bits() <= inner.Bits()
}
