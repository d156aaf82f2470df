package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/stack"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// load reads all that a reconciliation looks at. A cluster that is gone is nil.
func (r *Reconciler) load(ctx context.Context, request ctrl.Request) (*scope, error) {
	s := &scope{cluster: &v1alpha1.Cluster{}}
	if err := r.Get(ctx, request.NamespacedName, s.cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	network := &v1alpha1.Network{}
	err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: s.cluster.Spec.Network}, network)
	if err == nil {
		s.network = network
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	var tasks v1alpha1.TaskList
	if err := r.List(ctx, &tasks, client.InNamespace(request.Namespace), client.MatchingFields{status.TasksByResource: string(s.cluster.UID)}); err != nil {
		return nil, err
	}
	s.tasks = status.Changing(tasks.Items)
	slices.SortFunc(s.tasks, older)
	var groups v1alpha1.NodeGroupList
	if err := r.List(ctx, &groups, client.InNamespace(request.Namespace), client.MatchingFields{NodeGroupsByCluster: s.cluster.Name}); err != nil {
		return nil, err
	}
	s.groups = groups.Items
	return s, r.loadBuckets(ctx, s)
}

// loadBuckets finds out what keeps a cluster in a cloud from being deleted.
func (r *Reconciler) loadBuckets(ctx context.Context, s *scope) error {
	if s.cluster.DeletionTimestamp.IsZero() || !s.cluster.Spec.Type.InCloud() {
		return nil
	}
	var buckets v1alpha1.BucketList
	if err := r.List(ctx, &buckets, client.InNamespace(s.cluster.Namespace)); err != nil {
		return err
	}
	for i := range buckets.Items {
		if buckets.Items[i].Spec.Cluster == s.cluster.Name {
			s.buckets = append(s.buckets, buckets.Items[i].Name)
		}
	}
	return nil
}

// awaitBuckets tells, and says in the status, whether a cluster that is being deleted has to wait for its buckets. Admission
// lets none go before they have: this is for one that came at the same moment.
func (s *scope) awaitBuckets() bool {
	if len(s.buckets) == 0 {
		return false
	}
	c := s.cluster
	c.Status.Phase = v1alpha1.PhaseDeleting
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren, status.Children("buckets", s.buckets))
	return true
}

// older orders tasks. Times of creation are kept in seconds only, and a cluster may get several tasks in one: then the one
// of the older generation is older, and of two of the same the one that has finished, or was written to before.
func older(a, b v1alpha1.Task) int {
	finished := func(t v1alpha1.Task) int {
		if t.Status.Phase.Finished() {
			return 0
		}
		return 1
	}
	order := cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Spec.Generation, b.Spec.Generation),
		cmp.Compare(finished(a), finished(b)))
	if order != 0 {
		return order
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		return cmp.Compare(a.Name, b.Name) // this API server does not count them
	}
	return order
}

// latest is the newest task, or nil.
func (s *scope) latest() *v1alpha1.Task {
	if len(s.tasks) == 0 {
		return nil
	}
	return &s.tasks[len(s.tasks)-1]
}

// finished tells whether an operation has succeeded.
func (s *scope) finished(operation v1alpha1.Operation) bool {
	return slices.ContainsFunc(s.tasks, func(task v1alpha1.Task) bool {
		return task.Spec.Operation == operation && task.Status.Phase == v1alpha1.TaskSucceeded
	})
}

// neverStarted tells whether no task was ever made: there is nothing to clean up.
func (s *scope) neverStarted() bool {
	return len(s.tasks) == 0 && s.cluster.Status.ObservedGeneration == 0
}

// awaitParents tells, and says in the status, whether the cluster has to wait for its network.
func (r *Reconciler) awaitParents(s *scope) bool {
	c := s.cluster
	if !c.DeletionTimestamp.IsZero() || c.Status.ObservedGeneration > 0 {
		return false // what runs is not stopped by what happens to its parent
	}
	wait := func(reason, message string) bool {
		c.Status.Phase = v1alpha1.PhasePending
		status.Set(&c.Status.Conditions, c, v1alpha1.ConditionReady, false, reason, message)
		return true
	}
	switch {
	case s.network == nil:
		return wait(v1alpha1.ReasonParentMissing, fmt.Sprintf("spec.network: there is no network %q in this project; create it with `cloud vpc create --name %s`",
			c.Spec.Network, c.Spec.Network))
	case s.network.Status.Phase != v1alpha1.PhaseRunning:
		return wait(v1alpha1.ReasonParentNotReady, fmt.Sprintf("network %s is not ready yet", s.network.Name))
	}
	return false
}

// letGo ends the life of a cluster of which nothing is left.
func (r *Reconciler) letGo(ctx context.Context, s *scope) error {
	for i := range s.groups {
		if err := client.IgnoreNotFound(r.Delete(ctx, &s.groups[i])); err != nil {
			return fmt.Errorf("delete node group: %w", err)
		}
	}
	if err := stack.Bequeath(ctx, r.Client, r.Recorder, s.cluster, s.tasks); err != nil {
		return err
	}
	return status.Release(ctx, r.Client, s.cluster)
}
