// Package used keeps status.used of projects and organizations: what admission holds against their quotas, for people to
// read. Projects count their clusters, organizations add up their projects. Many changes in a short time are counted once,
// so that what counting costs is bounded by time, and a thousand clusters made at once do not make a million additions.
package used

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/organization"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// pause is how long changes are collected before they are counted.
const pause = time.Second

// Projects counts what each project uses.
type Projects struct {
	client.Client
	// Sizes are those of the catalogue as it is now.
	Sizes func() (usage.Sizer, error)
}

// SetupWithManager registers the controller.
func (r *Projects) SetupWithManager(manager ctrl.Manager) error {
	// What a cluster uses is in its spec, and its status changes all the time.
	specs := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(manager).Named("project-used").
		Watches(&v1alpha1.Project{}, later(func(o client.Object) string { return o.GetName() }), builder.WithPredicates(usedChanged())).
		Watches(&v1alpha1.Cluster{}, later(projectOf), specs).
		Watches(&v1alpha1.NodeGroup{}, later(projectOf), specs).
		Complete(r)
}

func projectOf(object client.Object) string {
	project, _ := strings.CutPrefix(object.GetNamespace(), v1alpha1.NamespacePrefix)
	return project
}

// Reconcile implements reconcile.Reconciler.
func (r *Projects) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	project := &v1alpha1.Project{}
	if err := r.Get(ctx, request.NamespacedName, project); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	sizes, err := r.Sizes()
	if err != nil {
		return result, err
	}
	var clusters v1alpha1.ClusterList
	var groups v1alpha1.NodeGroupList
	namespace := client.InNamespace(v1alpha1.NamespacePrefix + project.Name)
	for _, list := range []client.ObjectList{&clusters, &groups} {
		if err := r.List(ctx, list, namespace, client.UnsafeDisableDeepCopy); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, project)
	report(&project.Status.Used, usage.Sum(clusters.Items, groups.Items, sizes))
	return result, patcher.Patch(ctx)
}

// Organizations adds up what the projects of each organization use.
type Organizations struct{ client.Client }

// SetupWithManager registers the controller. It needs the index of package organization.
func (r *Organizations) SetupWithManager(manager ctrl.Manager) error {
	owner := func(object client.Object) string {
		project, _ := object.(*v1alpha1.Project)
		return project.Spec.Organization
	}
	return ctrl.NewControllerManagedBy(manager).Named("organization-used").
		Watches(&v1alpha1.Organization{}, later(func(o client.Object) string { return o.GetName() }), builder.WithPredicates(usedChanged())).
		Watches(&v1alpha1.Project{}, later(owner), builder.WithPredicates(usedChanged())).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Organizations) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	owner := &v1alpha1.Organization{}
	if err := r.Get(ctx, request.NamespacedName, owner); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	var projects v1alpha1.ProjectList
	if err := r.List(ctx, &projects, client.MatchingFields{organization.ProjectsByOrganization: owner.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return result, err
	}
	var sum usage.Usage
	for i := range projects.Items {
		sum = sum.Plus(usage.FromQuota(projects.Items[i].Status.Used))
	}
	patcher := status.NewPatcher(r.Client, owner)
	report(&owner.Status.Used, sum)
	return result, patcher.Patch(ctx)
}

// report writes an amount, unless it is there in other words: 1000m is 1.
func report(target **v1alpha1.Quota, now usage.Usage) {
	if counted := now.Quota(); !equality.Semantic.DeepEqual(*target, counted) {
		*target = counted
	}
}

// later wakes the object of a name after the pause; a second time within it is the same time.
func later(name func(client.Object) string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, object client.Object) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: name(object)}}, pause)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
	}
}

// usedChanged passes objects that come, go, or show another amount than before: one that somebody else wrote, or that a
// cache did not show when it was compared.
func usedChanged() predicate.Predicate {
	amount := func(object client.Object) *v1alpha1.Quota {
		switch typed := object.(type) {
		case *v1alpha1.Project:
			return typed.Status.Used
		case *v1alpha1.Organization:
			return typed.Status.Used
		}
		return nil
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(amount(e.ObjectOld), amount(e.ObjectNew))
	}}
}
