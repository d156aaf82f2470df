package tenant

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
)

// Connection is an open connection to a cluster whose API answers.
type Connection struct {
	client     kubernetes.Interface
	kubeconfig []byte
	nodes      *nodes
	// suspect holds something when the API may be away.
	suspect chan struct{}
	// work is what goes on until close is called.
	work  sync.WaitGroup
	close func()
}

// Client has the super administrator's rights in the cluster. Requests should have a deadline: the API may go away.
func (c *Connection) Client() kubernetes.Interface { return c.client }

// Node returns a node as the watch has last seen it, or nil. It must not be changed.
func (c *Connection) Node(name string) *corev1.Node { return c.nodes.get(name) }

// open connects to an API, and returns when the nodes are known.
func (l *link) open(ctx context.Context, kubeconfig []byte) (*Connection, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = "cloudd"
	config.QPS, config.Burst = -1, 0         // the API server has its own fair queueing
	config.Proxy = http.ProxyFromEnvironment // which also keeps the transport out of client-go's cache, where it would stay
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	life, end := context.WithCancel(ctx)
	c := &Connection{client: client, kubeconfig: kubeconfig, suspect: make(chan struct{}, 1)}
	c.nodes = newNodes(func(name string) { l.connections.publish(Change{Cluster: l.key, Node: name}) })
	c.close = func() {
		end()
		c.work.Wait()
		utilnet.CloseIdleConnectionsFor(transport.Transport)
	}
	if err := c.start(life, l); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// start begins to watch nodes and to approve certificates, and returns when the nodes are known.
func (c *Connection) start(ctx context.Context, l *link) error {
	if err := c.probe(ctx); err != nil {
		return err
	}
	// A reflector that writes straight into a map takes one goroutine; a shared informer takes seven.
	reflector := cache.NewReflectorWithOptions(c.watchNodes(), &corev1.Node{}, c.nodes, cache.ReflectorOptions{Name: "nodes of " + l.key.String()})
	c.work.Go(func() { reflector.RunWithContext(ctx) })
	approver := cluster.NewApprover(c.client, l.log).Trusting(func(node string) []string {
		return l.connections.config.Addresses(l.key, node)
	})
	c.work.Go(func() {
		if err := approver.Run(ctx); err != nil {
			l.log.Error("certificates of kubelets are not approved", "error", err)
		}
	})
	timer := time.NewTimer(requestTimeout)
	defer timer.Stop()
	select {
	case <-c.nodes.known:
		return nil
	case <-timer.C:
		return fmt.Errorf("list nodes: not within %s", requestTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// probe asks for what everything else needs: the namespace that tokens are kept in.
func (c *Connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("ask for namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return nil
}

// watchNodes lists and watches; what fails makes the connection suspect.
func (c *Connection) watchNodes() cache.ListerWatcher {
	doubt := func(err error) {
		if err == nil {
			return
		}
		select {
		case c.suspect <- struct{}{}:
		default: // it is already
		}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := c.client.CoreV1().Nodes().List(ctx, options)
			doubt(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := c.client.CoreV1().Nodes().Watch(ctx, options)
			doubt(err)
			return watcher, err
		},
	}, c.client)
}
