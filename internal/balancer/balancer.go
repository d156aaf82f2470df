// Package balancer is the load balancer in front of a cluster's API servers on machines: a pod on the management cluster
// that forwards connections to those of them that answer. It hears which they are by watching one ConfigMap, which the
// cluster's provisioner writes. The forwarding itself is that of package join.
package balancer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plasmacloud.io/plasmacloud/internal/k8shost/join"
)

// checkInterval is how often an API server is tried that did not answer: one that starts is waited for.
const checkInterval = 500 * time.Millisecond

// Config is what a balancer works with.
type Config struct {
	// Listen is the address to listen on, such as :6443.
	Listen string
	// API is the management cluster's, Namespace where the ConfigMap is.
	API       kubernetes.Interface
	Namespace string
	Log       *slog.Logger
}

// Balancer forwards connections to API servers.
type Balancer struct {
	config Config
	// set holds the newest list that nobody has taken over yet.
	set chan []string
}

// New returns a balancer; Run does the work.
func New(config Config) (*Balancer, error) {
	if config.Listen == "" || config.API == nil || config.Namespace == "" || config.Log == nil {
		return nil, errors.New("make balancer: address, API, namespace and log are needed")
	}
	return &Balancer{config: config, set: make(chan []string, 1)}, nil
}

// Run listens as soon as it knows a server, and forwards until ctx ends.
func (b *Balancer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { b.watch(ctx) })
	var servers []string
	select {
	case <-ctx.Done():
		return nil
	case servers = <-b.set:
	}
	lb, err := join.ListenLoadBalancer(join.LoadBalancerConfig{
		Listen: b.config.Listen, Servers: servers, Logger: b.config.Log, CheckInterval: checkInterval,
	})
	if err != nil {
		return err
	}
	b.config.Log.Info("listening", "address", lb.Addr().String(), "servers", servers)
	work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case servers := <-b.set:
				if err := lb.SetServers(servers); err != nil {
					b.config.Log.Error("cannot take over the list of API servers", "error", err)
				}
			}
		}
	})
	return lb.Run(ctx)
}

// watch hands on every list of servers until ctx ends.
func (b *Balancer) watch(ctx context.Context) {
	configMaps := b.config.API.CoreV1().ConfigMaps(b.config.Namespace)
	only := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return configMaps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			return configMaps.Watch(ctx, options)
		},
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, b.config.API), ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: b.heard, UpdateFunc: func(_, now any) { b.heard(now) }},
	})
	informer.RunWithContext(ctx)
}

// heard takes over the servers of a ConfigMap. An empty list is no reason to forget the servers before: somebody who
// replaces all of them names the new ones.
func (b *Balancer) heard(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	servers, err := Read(configMap)
	if err != nil {
		b.config.Log.Error("the list of API servers is ignored", "error", err)
		return
	}
	if len(servers) == 0 {
		return
	}
	addresses := make([]string, len(servers))
	for i, server := range servers {
		addresses[i] = server.Address
	}
	select {
	case <-b.set: // nobody has taken over the one before
	default:
	}
	b.set <- addresses // one goroutine calls this
}
