// Package project gives every project its namespace, with the permissions and labels of its members, and takes it away
// when the project goes.
package project

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/furnish"
	"plasmacloud.io/plasmacloud/internal/controller/organization"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Reconciler reconciles projects.
type Reconciler struct {
	client.Client
	// Objects are what a project's namespace is made of, the namespace first.
	Objects func(project *v1alpha1.Project) []client.Object
}

// SetupWithManager registers the controller. It needs the index of package organization.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	inside := handler.EnqueueRequestsFromMapFunc(projectOf)
	damaged, gone := builder.WithPredicates(furnish.Damaged()), builder.WithPredicates(status.Gone())
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.Project{}, builder.WithPredicates(status.Beyond(func(p *v1alpha1.Project) { p.Status.Used = nil }))).
		Owns(&corev1.Namespace{}).
		// What its people may do is repaired when somebody takes it away. Only that it changed has to be known, not how.
		Owns(&rbacv1.ClusterRole{}, builder.MatchEveryOwner, builder.OnlyMetadata, damaged).
		Owns(&rbacv1.ClusterRoleBinding{}, builder.MatchEveryOwner, builder.OnlyMetadata, damaged).
		Watches(&rbacv1.Role{}, inside, builder.OnlyMetadata, damaged).
		Watches(&rbacv1.RoleBinding{}, inside, builder.OnlyMetadata, damaged).
		// A project that is being deleted waits for these.
		Watches(&v1alpha1.Cluster{}, inside, gone).
		Watches(&v1alpha1.Network{}, inside, gone).
		// A project that was there first waits for its organization.
		Watches(&v1alpha1.Organization{}, handler.EnqueueRequestsFromMapFunc(r.projectsOf), builder.WithPredicates(status.ComesOrGoes())).
		Complete(r)
}

// projectOf is the project of an object in a project's namespace.
func projectOf(_ context.Context, object client.Object) []reconcile.Request {
	project, ok := strings.CutPrefix(object.GetNamespace(), v1alpha1.NamespacePrefix)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: project}}}
}

func (r *Reconciler) projectsOf(ctx context.Context, owner client.Object) []reconcile.Request {
	var projects v1alpha1.ProjectList
	if err := r.List(ctx, &projects, client.MatchingFields{organization.ProjectsByOrganization: owner.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list projects of an organization")
		return nil
	}
	return status.Requests(projects.Items)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	project := &v1alpha1.Project{}
	if err := r.Get(ctx, request.NamespacedName, project); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	if !project.DeletionTimestamp.IsZero() {
		return result, r.remove(ctx, project)
	}
	if err := status.EnsureFinalizer(ctx, r.Client, project); err != nil {
		return result, err
	}
	patcher := status.NewPatcher(r.Client, project)
	project.Status.ObservedGeneration = project.Generation
	owner := &v1alpha1.Organization{}
	err = r.Get(ctx, client.ObjectKey{Name: project.Spec.Organization}, owner)
	if apierrors.IsNotFound(err) {
		// Permissions for the people of an organization that somebody may make later would be theirs.
		project.Status.Phase = v1alpha1.PhasePending
		status.Set(&project.Status.Conditions, project, v1alpha1.ConditionReady, false, v1alpha1.ReasonParentMissing,
			fmt.Sprintf("spec.organization: there is no organization %q; create it", project.Spec.Organization))
		return result, patcher.Patch(ctx)
	}
	if err != nil {
		return result, err
	}
	if err := r.furnish(ctx, project); err != nil {
		return result, err
	}
	project.Status.Namespace = v1alpha1.NamespacePrefix + project.Name
	project.Status.Phase = v1alpha1.PhaseRunning
	status.Set(&project.Status.Conditions, project, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	return result, patcher.Patch(ctx)
}

// furnish makes the namespace and what is in it.
func (r *Reconciler) furnish(ctx context.Context, project *v1alpha1.Project) error {
	objects := r.Objects(project)
	for _, object := range objects {
		if namespace, ok := object.(*corev1.Namespace); ok {
			if err := ctrl.SetControllerReference(project, namespace, r.Scheme()); err != nil {
				return err
			}
		}
	}
	return furnish.Objects(ctx, r.Client, objects)
}

// remove deletes the namespace once no cluster and no network is left in it, and waits until it is gone.
func (r *Reconciler) remove(ctx context.Context, project *v1alpha1.Project) error {
	name := v1alpha1.NamespacePrefix + project.Name
	children, err := r.children(ctx, name)
	if err != nil {
		return err
	}
	patcher := status.NewPatcher(r.Client, project)
	project.Status.Phase = v1alpha1.PhaseDeleting
	if len(children) > 0 {
		status.Set(&project.Status.Conditions, project, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren,
			status.Children("clusters or networks", children))
		return patcher.Patch(ctx)
	}
	namespace := &corev1.Namespace{}
	err = r.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return status.Release(ctx, r.Client, project)
	}
	if namespace.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Delete(ctx, namespace)); err != nil {
			return fmt.Errorf("delete namespace: %w", err)
		}
	}
	return patcher.Patch(ctx) // the namespace's end wakes us again
}

func (r *Reconciler) children(ctx context.Context, namespace string) ([]string, error) {
	var clusters v1alpha1.ClusterList
	var networks v1alpha1.NetworkList
	for _, list := range []client.ObjectList{&clusters, &networks} {
		if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	return append(status.Named("cluster", clusters.Items), status.Named("network", networks.Items)...), nil
}
