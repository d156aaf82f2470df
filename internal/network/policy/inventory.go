package policy

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Source lists and watches objects of one kind, of all namespaces.
type Source[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Sources is all that policies need of the Kubernetes API, and all that the
// node's identity must be allowed. CoreV1().Pods("") and the like of any
// clientset do.
type Sources struct {
	Pods       Source[*corev1.PodList]
	Namespaces Source[*corev1.NamespaceList]
	Policies   Source[*networkingv1.NetworkPolicyList]
}

// inventory is the cluster as last heard of.
type inventory struct {
	pods, namespaces, policies informer
}

type informer struct {
	store      cache.Store
	controller cache.Controller
}

func newInventory(sources Sources, changed func(), log *slog.Logger) *inventory {
	return &inventory{
		pods: newInformer(sources.Pods, &corev1.Pod{}, trimPod, func(before, after any) bool {
			return before.(*pod).same(after.(*pod))
		}, changed, log),
		namespaces: newInformer(sources.Namespaces, &corev1.Namespace{}, trimNamespace, func(before, after any) bool {
			return maps.Equal(before.(*metav1.ObjectMeta).Labels, after.(*metav1.ObjectMeta).Labels)
		}, changed, log),
		policies: newInformer(sources.Policies, &networkingv1.NetworkPolicy{}, trimPolicy, func(before, after any) bool {
			return equality.Semantic.DeepEqual(before.(*networkingv1.NetworkPolicy).Spec, after.(*networkingv1.NetworkPolicy).Spec)
		}, changed, log),
	}
}

// newInformer follows a source. It keeps what trim leaves of the objects, and
// tells when that is not the same any more.
func newInformer[L runtime.Object](
	source Source[L], kind runtime.Object, trim cache.TransformFunc, same func(before, after any) bool, changed func(), log *slog.Logger,
) informer {
	logger := logr.FromSlogHandler(log.Handler())
	var made informer
	made.store, made.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &logger,
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return source.List(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return source.Watch(ctx, opts)
			},
		}, source),
		ObjectType: kind,
		Transform:  trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			DeleteFunc: func(any) { changed() },
			UpdateFunc: func(before, after any) {
				if !same(before, after) {
					changed()
				}
			},
		},
	})
	return made
}

func (i *inventory) all() []informer { return []informer{i.pods, i.namespaces, i.policies} }

// synced waits until everything has been heard once.
func (i *inventory) synced(ctx context.Context) bool {
	for _, one := range i.all() {
		select {
		case <-one.controller.HasSyncedChecker().Done():
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// pod is what is kept of a Pod, which is some kilobytes: a node hears of all
// pods of the cluster.
type pod struct {
	metav1.ObjectMeta
	node        string
	addresses   []netip.Addr
	ports       []NamedPort
	hostNetwork bool
	// ended pods may have given their address away.
	ended bool
}

func (p *pod) same(other *pod) bool {
	return p.UID == other.UID && p.node == other.node && p.hostNetwork == other.hostNetwork && p.ended == other.ended &&
		maps.Equal(p.Labels, other.Labels) &&
		slices.Equal(p.addresses, other.addresses) && slices.Equal(p.ports, other.ports)
}

func trimPod(object any) (any, error) {
	full, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &pod{
		ObjectMeta: trimMeta(full.ObjectMeta), node: full.Spec.NodeName,
		hostNetwork: full.Spec.HostNetwork,
		ended:       full.Status.Phase == corev1.PodSucceeded || full.Status.Phase == corev1.PodFailed,
	}
	for _, ip := range full.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() {
			kept.addresses = append(kept.addresses, addr)
		}
	}
	for _, container := range full.Spec.Containers {
		kept.ports = appendNamed(kept.ports, container.Ports)
	}
	for _, container := range full.Spec.InitContainers {
		kept.ports = appendNamed(kept.ports, container.Ports)
	}
	return kept, nil
}

func appendNamed(kept []NamedPort, ports []corev1.ContainerPort) []NamedPort {
	for _, port := range ports {
		if port.Name == "" || port.ContainerPort < 1 || port.ContainerPort > 65535 {
			continue
		}
		protocol := strings.ToLower(string(port.Protocol))
		if protocol == "" {
			protocol = "tcp"
		}
		kept = append(kept, NamedPort{Name: port.Name, Protocol: protocol, Port: uint16(port.ContainerPort)})
	}
	return kept
}

func trimNamespace(object any) (any, error) {
	full, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	kept := trimMeta(full.ObjectMeta)
	return &kept, nil
}

func trimPolicy(object any) (any, error) {
	full, ok := object.(*networkingv1.NetworkPolicy)
	if !ok {
		return object, nil
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: trimMeta(full.ObjectMeta), Spec: full.Spec}, nil
}

func trimMeta(full metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, Labels: full.Labels,
	}
}

// cluster is what the compiler needs. The addresses of this node's own pods are
// in its leases, long before the API hears of them.
func (i *inventory) cluster(node string, leased map[string][]netip.Addr) Cluster {
	result := Cluster{Namespaces: map[string]labels.Set{}}
	for _, object := range i.namespaces.store.List() {
		namespace := object.(*metav1.ObjectMeta)
		result.Namespaces[namespace.Name] = namespace.Labels
	}
	for _, object := range i.policies.store.List() {
		result.Policies = append(result.Policies, object.(*networkingv1.NetworkPolicy))
	}
	for _, object := range i.pods.store.List() {
		known := object.(*pod)
		one := &Pod{
			Namespace: known.Namespace, Name: known.Name, Labels: known.Labels, Ports: known.ports,
			Addresses: known.addresses, Local: known.node == node,
		}
		switch {
		case known.hostNetwork:
			continue
		case one.Local:
			// A pod that is being evicted has ended for the API, not for the node.
			one.Addresses = leased[one.Namespace+"/"+one.Name]
		case known.ended:
			continue
		}
		if len(one.Addresses) > 0 {
			result.Pods = append(result.Pods, one)
		}
	}
	return result
}

// knows tells whether the API has told of a pod of this node.
func (i *inventory) knows(node, name string) bool {
	object, exists, err := i.pods.store.GetByKey(name)
	return err == nil && exists && object.(*pod).node == node
}
