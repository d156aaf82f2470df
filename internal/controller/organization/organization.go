// Package organization keeps the status of organizations: how many projects they have, and, on deletion, that none is
// left behind.
package organization

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// ProjectsByOrganization is the index of projects by their organization.
const ProjectsByOrganization = "spec.organization"

// Reconciler reconciles organizations.
type Reconciler struct{ client.Client }

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byOrganization := func(project *v1alpha1.Project) string { return project.Spec.Organization }
	if err := status.IndexBy(manager, &v1alpha1.Project{}, ProjectsByOrganization, byOrganization); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Organization{}).
		Watches(&v1alpha1.Project{}, status.Parent(func(project *v1alpha1.Project) client.ObjectKey {
			return client.ObjectKey{Name: project.Spec.Organization}
		})).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	organization := &v1alpha1.Organization{}
	if err := r.Get(ctx, request.NamespacedName, organization); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	var projects v1alpha1.ProjectList
	if err := r.List(ctx, &projects, client.MatchingFields{ProjectsByOrganization: organization.Name}); err != nil {
		return result, err
	}
	if !organization.DeletionTimestamp.IsZero() && len(projects.Items) == 0 {
		return result, status.Release(ctx, r.Client, organization)
	}
	if organization.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, organization); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, organization)
	organization.Status.Projects = int32(len(projects.Items))
	organization.Status.ObservedGeneration = organization.Generation
	if organization.DeletionTimestamp.IsZero() {
		status.Set(&organization.Status.Conditions, organization, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	} else {
		status.Set(&organization.Status.Conditions, organization, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren,
			status.Children("projects", status.Names(projects.Items)))
	}
	return result, patcher.Patch(ctx)
}
