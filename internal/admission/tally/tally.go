// Package tally keeps count of what the clusters of each project use while they come, change and go. Admission asks it
// instead of counting thousands of clusters at every request.
package tally

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// Tally counts clusters and node groups that it is told of. It keeps the objects, and leaves them as they are.
type Tally struct {
	mutex sync.Mutex
	// sizes are those that everything was counted with; nil where nothing was counted yet.
	sizes    usage.Sizer
	projects map[string]*project // by namespace
	synced   []func() bool
}

var _ toolscache.ResourceEventHandler = (*Tally)(nil)

// project is a sum, and what it is the sum of.
type project struct {
	clusters map[string]*cluster
	total    usage.Usage
}

// cluster is one with its node groups. The object is nil while only groups are known.
type cluster struct {
	object *v1alpha1.Cluster
	groups map[string]*v1alpha1.NodeGroup
	used   usage.Usage
}

// New is a tally of nothing.
func New() *Tally { return &Tally{projects: map[string]*project{}} }

// Follow lets the tally know all that a cache does.
func (t *Tally) Follow(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{&v1alpha1.Cluster{}, &v1alpha1.NodeGroup{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("follow %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(t)
		if err != nil {
			return fmt.Errorf("follow %T: %w", kind, err)
		}
		t.synced = append(t.synced, registration.HasSynced)
	}
	return nil
}

// Synced tells whether it knows all that was there when it began to follow.
func (t *Tally) Synced() bool {
	return len(t.synced) > 0 && !slices.ContainsFunc(t.synced, func(synced func() bool) bool { return !synced() })
}

// OnAdd implements the handler of a cache's events.
func (t *Tally) OnAdd(object any, _ bool) { t.Put(object) }

// OnUpdate implements the handler of a cache's events.
func (t *Tally) OnUpdate(before, object any) {
	old, ok := before.(client.Object)
	// Only the spec counts, and a status changes all the time.
	if changed, isObject := object.(client.Object); ok && isObject && old.GetUID() == changed.GetUID() && old.GetGeneration() == changed.GetGeneration() {
		return
	}
	t.Put(object)
}

// OnDelete implements the handler of a cache's events.
func (t *Tally) OnDelete(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	switch gone := object.(type) {
	case *v1alpha1.Cluster:
		t.change(gone.Namespace, gone.Name, func(c *cluster) { c.object = nil })
	case *v1alpha1.NodeGroup:
		t.change(gone.Namespace, gone.Spec.Cluster, func(c *cluster) { delete(c.groups, gone.Name) })
	}
}

// Put counts a cluster or a node group, in the place of what it was before.
func (t *Tally) Put(object any) {
	switch object := object.(type) {
	case *v1alpha1.Cluster:
		t.change(object.Namespace, object.Name, func(c *cluster) { c.object = object })
	case *v1alpha1.NodeGroup:
		t.change(object.Namespace, object.Spec.Cluster, func(c *cluster) { c.groups[object.Name] = object })
	}
}

func (t *Tally) change(namespace, name string, change func(*cluster)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.projects[namespace]
	if p == nil {
		p = &project{clusters: map[string]*cluster{}}
		t.projects[namespace] = p
	}
	c := p.clusters[name]
	if c == nil {
		c = &cluster{groups: map[string]*v1alpha1.NodeGroup{}}
		p.clusters[name] = c
	}
	change(c)
	t.count(p, c)
	if c.object == nil && len(c.groups) == 0 {
		delete(p.clusters, name)
	}
	if len(p.clusters) == 0 {
		delete(t.projects, namespace)
	}
}

// count counts a cluster anew.
func (t *Tally) count(p *project, c *cluster) {
	before := c.used
	c.used = usage.Usage{}
	if c.object != nil && t.sizes != nil {
		c.used = usage.Of(c.object, c.list(), t.sizes)
	}
	p.total = p.total.Plus(c.used).Minus(before)
}

func (c *cluster) list() []v1alpha1.NodeGroup {
	groups := make([]v1alpha1.NodeGroup, 0, len(c.groups))
	for group := range maps.Values(c.groups) {
		groups = append(groups, *group)
	}
	return groups
}

// Read lets look see what is used at one moment, with nodes of the given sizes. What it sees is gone when it returns.
func (t *Tally) Read(sizes usage.Sizer, look func(Counts)) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.sizes != sizes { // the catalogue has changed, which is rare
		t.sizes = sizes
		for _, p := range t.projects {
			for _, c := range p.clusters {
				t.count(p, c)
			}
		}
	}
	look(Counts{t.projects})
}

// Counts are what is used at one moment.
type Counts struct{ projects map[string]*project }

// Total is what all clusters of a project use.
func (c Counts) Total(name string) usage.Usage {
	if p := c.projects[v1alpha1.NamespacePrefix+name]; p != nil {
		return p.total
	}
	return usage.Usage{}
}

// Of is what one cluster uses.
func (c Counts) Of(project, name string) usage.Usage {
	if found := c.find(project, name); found != nil {
		return found.used
	}
	return usage.Usage{}
}

// Groups are the node groups of a cluster.
func (c Counts) Groups(project, name string) []v1alpha1.NodeGroup {
	if found := c.find(project, name); found != nil {
		return found.list()
	}
	return nil
}

func (c Counts) find(project, name string) *cluster {
	if p := c.projects[v1alpha1.NamespacePrefix+project]; p != nil {
		return p.clusters[name]
	}
	return nil
}
