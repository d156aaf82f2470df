// Package project gives every project its namespace, with the permissions and labels of its members, and takes it away
// when the project goes.
package project

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// owner is the name under which the controller sets fields.
const owner = "cloudd"

// Reconciler reconciles projects.
type Reconciler struct {
	client.Client
	// Objects are what a project's namespace is made of, the namespace first.
	Objects func(project *v1alpha1.Project) ([]client.Object, error)
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Project{}).Owns(&corev1.Namespace{}).Complete(r)
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
	if err := r.furnish(ctx, project); err != nil {
		return result, err
	}
	project.Status.Namespace = v1alpha1.NamespacePrefix + project.Name
	project.Status.Phase = v1alpha1.PhaseRunning
	project.Status.ObservedGeneration = project.Generation
	status.Set(&project.Status.Conditions, project, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	return result, patcher.Patch(ctx)
}

// furnish makes the namespace and what is in it.
func (r *Reconciler) furnish(ctx context.Context, project *v1alpha1.Project) error {
	objects, err := r.Objects(project)
	if err != nil {
		return fmt.Errorf("describe namespace: %w", err)
	}
	for _, object := range objects {
		kinds, _, err := r.Scheme().ObjectKinds(object)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
		if namespace, ok := object.(*corev1.Namespace); ok {
			if err := ctrl.SetControllerReference(project, namespace, r.Scheme()); err != nil {
				return err
			}
		}
		content, err := apply.Typed(object)
		if err != nil {
			return err
		}
		if err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), client.FieldOwner(owner), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", kinds[0].Kind, object.GetName(), err)
		}
	}
	return nil
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
	if err := r.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var children []string
	for _, cluster := range clusters.Items {
		children = append(children, "cluster "+cluster.Name)
	}
	return children, nil
}
