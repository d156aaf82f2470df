// Package tenant is the platform's way into the clusters that it runs. For each cluster whose nodes somebody asks about
// there is one connection: a client with the super administrator's rights, the cluster's nodes, kept up to date by a
// watch, and the approval of the certificates that its kubelets serve with. Connections are made when they are first
// asked for, wait for an API that is only starting, and are made anew when it was away or the credentials have changed.
//
// What is done with a cluster's nodes is up to the controllers; what is done inside a cluster besides is no concern of
// this package.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// KubeconfigSecret is the Secret, in a cluster's own namespace, that the platform's kubeconfig of the cluster is in.
const KubeconfigSecret = "kubeconfig"

// ErrNotConnected says that a cluster's API does not answer now, wrapped with why. Subscribers are told when it does.
var ErrNotConnected = errors.New("the cluster's API does not answer")

// ErrNotTried is wrapped too where nobody has asked the API yet: whether it would answer is not known.
var ErrNotTried = errors.New("it has not been tried yet")

// Change tells that a node of a cluster has changed, appeared or gone; or, where Node is empty, that the cluster's API
// answers now, or does no longer.
type Change struct {
	Cluster types.NamespacedName
	Node    string
}

// Config is what connections need.
type Config struct {
	// API is the management cluster's, where the clusters' kubeconfigs are kept. They are read directly.
	API kubernetes.Interface
	// Addresses returns the names and addresses that a node of a cluster may serve under.
	Addresses func(cluster types.NamespacedName, node string) []string
	Clock     clock.Clock
	Log       *slog.Logger
}

// Connections are the connections to all clusters.
type Connections struct {
	config Config
	work   sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	links       map[types.NamespacedName]*link
	subscribers []func(Change)
}

// New returns connections to no cluster yet. Close ends them.
func New(config Config) *Connections {
	return &Connections{config: config, links: map[types.NamespacedName]*link{}}
}

// Get returns the connection to a cluster. Where there is none it begins to make one and returns ErrNotConnected.
func (c *Connections) Get(cluster *v1alpha1.Cluster) (*Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if c.closed {
		return nil, fmt.Errorf("%w: connections are closed", ErrNotConnected)
	}
	if known := c.links[key]; known != nil {
		if known.uid == cluster.UID {
			return known.get()
		}
		known.stop() // another cluster of the same name
	}
	ctx, stop := context.WithCancel(context.Background())
	made := &link{
		connections: c, key: key, uid: cluster.UID, namespace: v1alpha1.InfrastructureNamespace(cluster), stop: stop,
		log: c.config.Log.With("cluster", key.String()), problem: ErrNotTried,
	}
	c.links[key] = made
	c.work.Go(func() { made.run(ctx) })
	return made.get()
}

// Drop ends the connection to a cluster. It is no error if there is none; it is made again when somebody asks for it.
func (c *Connections) Drop(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.links[cluster]; known != nil {
		known.stop()
		delete(c.links, cluster)
	}
}

// Subscribe has notify called for every change from now on. It may be called by several goroutines at once, and must
// return soon.
func (c *Connections) Subscribe(notify func(Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, notify)
}

func (c *Connections) publish(change Change) {
	c.mu.Lock()
	subscribers := slices.Clone(c.subscribers)
	c.mu.Unlock()
	for _, notify := range subscribers {
		notify(change)
	}
}

// Close ends all connections and returns when they have ended.
func (c *Connections) Close() {
	c.mu.Lock()
	c.closed = true
	for _, known := range c.links {
		known.stop()
	}
	c.mu.Unlock()
	c.work.Wait()
}
