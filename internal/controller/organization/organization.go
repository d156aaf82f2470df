// Package organization keeps organizations: what their people may do with them, how many projects they have, and, on
// deletion, that no project and no user is left behind.
package organization

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/furnish"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Indexes of what belongs to an organization.
const (
	ProjectsByOrganization = "spec.organization"
	UsersByOrganization    = "spec.organization"
)

// Reconciler reconciles organizations.
type Reconciler struct {
	client.Client
	// Objects are what the people of an organization with these projects and users may do.
	Objects func(organization *v1alpha1.Organization, projects, users []string) []client.Object
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byOrganization := func(project *v1alpha1.Project) string { return project.Spec.Organization }
	if err := status.IndexBy(manager, &v1alpha1.Project{}, ProjectsByOrganization, byOrganization); err != nil {
		return err
	}
	ofOrganization := func(user *v1alpha1.User) string { return user.Spec.Organization }
	if err := status.IndexBy(manager, &v1alpha1.User{}, UsersByOrganization, ofOrganization); err != nil {
		return err
	}
	names, damaged := builder.WithPredicates(status.ComesOrGoes()), builder.WithPredicates(furnish.Damaged())
	return ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.Organization{}, builder.WithPredicates(status.Beyond(func(o *v1alpha1.Organization) { o.Status.Used = nil }))).
		Owns(&rbacv1.ClusterRole{}, builder.MatchEveryOwner, builder.OnlyMetadata, damaged).
		Owns(&rbacv1.ClusterRoleBinding{}, builder.MatchEveryOwner, builder.OnlyMetadata, damaged).
		Watches(&v1alpha1.Project{}, status.Parent(func(project *v1alpha1.Project) client.ObjectKey {
			return client.ObjectKey{Name: project.Spec.Organization}
		}), names).
		Watches(&v1alpha1.User{}, status.Parent(func(user *v1alpha1.User) client.ObjectKey {
			return client.ObjectKey{Name: user.Spec.Organization}
		}), names).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	organization := &v1alpha1.Organization{}
	if err := r.Get(ctx, request.NamespacedName, organization); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	projects, users, err := r.children(ctx, organization.Name)
	if err != nil {
		return result, err
	}
	if !organization.DeletionTimestamp.IsZero() && len(projects)+len(users) == 0 {
		return result, status.Release(ctx, r.Client, organization)
	}
	if organization.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, organization); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, organization)
	if err := furnish.Objects(ctx, r.Client, r.Objects(organization, status.Names(projects), status.Names(users))); err != nil {
		return result, err
	}
	organization.Status.Projects = int32(len(projects))
	organization.Status.ObservedGeneration = organization.Generation
	if organization.DeletionTimestamp.IsZero() {
		status.Set(&organization.Status.Conditions, organization, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	} else {
		status.Set(&organization.Status.Conditions, organization, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren,
			status.Children("projects or users", append(status.Named("project", projects), status.Named("user", users)...)))
	}
	return result, patcher.Patch(ctx)
}

// children are the organization's projects and users, in the order of their names: a role that lists them would change
// with any other.
func (r *Reconciler) children(ctx context.Context, name string) ([]v1alpha1.Project, []v1alpha1.User, error) {
	var projects v1alpha1.ProjectList
	if err := r.List(ctx, &projects, client.MatchingFields{ProjectsByOrganization: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	var users v1alpha1.UserList
	if err := r.List(ctx, &users, client.MatchingFields{UsersByOrganization: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(projects.Items, func(a, b v1alpha1.Project) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(users.Items, func(a, b v1alpha1.User) int { return strings.Compare(a.Name, b.Name) })
	return projects.Items, users.Items, nil
}
