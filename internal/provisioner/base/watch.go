package base

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

const (
	// patience is how long a step watches before it lets go of its worker; it is called again at once if it is not done.
	patience = 20 * time.Second
	// rewatch is how long to wait before a watch that ended is begun anew.
	rewatch = 500 * time.Millisecond
)

// Watcher begins a watch.
type Watcher func(ctx context.Context) (watch.Interface, error)

// Await calls check now, after every change of what is watched, and at intervals if they are given, until check is done
// or fails. It gives up, to be called again, when its patience ends, and at once when the cluster is asked to be
// something else: a person who deletes a cluster does not wait for its creation. Its message says what check waits for.
func (b *Build) Await(ctx context.Context, interval time.Duration, watchers []Watcher, check func(ctx context.Context) (done bool, waitsFor string, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	for _, begin := range watchers {
		go b.follow(ctx, begin, func(watch.Event) { signal(changed) })
	}
	superseded := make(chan struct{}, 1)
	go b.follow(ctx, b.watchCluster, func(event watch.Event) {
		if b.otherwise(event) {
			signal(superseded)
		}
	})
	end := b.Clock.NewTimer(patience)
	defer end.Stop()
	if interval == 0 {
		interval = patience
	}
	tick := b.Clock.NewTicker(interval)
	defer tick.Stop()
	for {
		done, waitsFor, err := check(ctx)
		if done || err != nil {
			return err
		}
		b.Scope.Report("%s", waitsFor)
		select {
		case <-changed:
		case <-tick.C():
		case <-superseded:
			return task.Wait(time.Millisecond, "%s", waitsFor)
		case <-end.C():
			return task.Wait(time.Millisecond, "%s", waitsFor)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Unless does something that takes its time, and ends it when the cluster is asked to be something else; then it is to be
// called again, which it will not be.
func (b *Build) Unless(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go b.follow(ctx, b.watchCluster, func(event watch.Event) {
		if b.otherwise(event) {
			cancel(errOtherwise)
		}
	})
	err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errOtherwise) {
		return task.Wait(time.Millisecond, "%v", errOtherwise)
	}
	return err
}

// errOtherwise is why something ends that would have taken its time.
var errOtherwise = errors.New("the cluster is asked to be something else")

func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default: // it is signalled already
	}
}

// follow calls heard for every event of a watch, and watches again when the watch ends, until ctx does.
func (b *Build) follow(ctx context.Context, begin Watcher, heard func(watch.Event)) {
	for ctx.Err() == nil {
		events, err := begin(ctx)
		if err == nil {
			for event := range events.ResultChan() {
				heard(event)
			}
			events.Stop()
		} else if !errors.Is(err, context.Canceled) {
			b.Scope.Log.Debug("cannot watch", "error", err)
		}
		timer := b.Clock.NewTimer(rewatch)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C():
			heard(watch.Event{}) // something may have been missed
		}
	}
}

func (b *Build) watchCluster(ctx context.Context) (watch.Interface, error) {
	return b.Dynamic.Resource(v1alpha1.GroupVersion.WithResource("clusters")).Namespace(b.Cluster.Namespace).Watch(ctx, Only(b.Cluster.Name))
}

// Only selects one object by its name.
func Only(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// otherwise tells whether the cluster is asked to be something else than what the step works on.
func (b *Build) otherwise(event watch.Event) bool {
	c, ok := event.Object.(*unstructured.Unstructured)
	if !ok || c.GetKind() != "Cluster" {
		return false
	}
	deleting := c.GetDeletionTimestamp() != nil
	return c.GetUID() != b.Cluster.UID || deleting != (b.Cluster.DeletionTimestamp != nil) ||
		!deleting && c.GetGeneration() > b.Scope.Task.Spec.Generation ||
		(c.GetAnnotations()[v1alpha1.AnnotationForce] != b.Cluster.Annotations[v1alpha1.AnnotationForce])
}

// WatchPods watches all pods.
func (b *Build) WatchPods(ctx context.Context) (watch.Interface, error) {
	return b.Client.CoreV1().Pods(b.Home).Watch(ctx, metav1.ListOptions{})
}

func (b *Build) watchNamespace(ctx context.Context) (watch.Interface, error) {
	return b.Client.CoreV1().Namespaces().Watch(ctx, Only(b.Home))
}

// WatchResource watches the cluster's objects of one of our kinds.
func (b *Build) WatchResource(resource string) Watcher {
	return func(ctx context.Context) (watch.Interface, error) {
		return b.OfCluster(resource).Watch(ctx, b.ClusterSelector())
	}
}
