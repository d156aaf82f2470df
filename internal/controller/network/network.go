// Package network keeps networks: that their account is there, how many clusters they have, and, on deletion, that none
// is left behind.
package network

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// ClustersByNetwork is the index of clusters by their network.
const ClustersByNetwork = "spec.network"

// Reconciler reconciles networks.
type Reconciler struct{ client.Client }

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byNetwork := func(cluster *v1alpha1.Cluster) string { return cluster.Spec.Network }
	if err := status.IndexBy(manager, &v1alpha1.Cluster{}, ClustersByNetwork, byNetwork); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Network{}).
		Watches(&v1alpha1.Cluster{}, status.Parent(func(cluster *v1alpha1.Cluster) client.ObjectKey {
			return client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.Network}
		}), builder.WithPredicates(status.ComesOrGoes())). // a cluster stays in its network, whatever else becomes of it
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(r.networksOf)).
		Complete(r)
}

func (r *Reconciler) networksOf(ctx context.Context, object client.Object) []reconcile.Request {
	var networks v1alpha1.NetworkList
	if err := r.List(ctx, &networks, client.InNamespace(object.GetNamespace()), client.MatchingFields{account.NetworksByAccount: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list networks of an account")
		return nil
	}
	return status.Requests(networks.Items)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	network := &v1alpha1.Network{}
	if err := r.Get(ctx, request.NamespacedName, network); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	var clusters v1alpha1.ClusterList
	// There may be thousands, of which only the names are looked at: they need not be copied.
	if err := r.List(ctx, &clusters, client.InNamespace(network.Namespace), client.MatchingFields{ClustersByNetwork: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return result, err
	}
	if !network.DeletionTimestamp.IsZero() && len(clusters.Items) == 0 {
		return result, status.Release(ctx, r.Client, network)
	}
	if network.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, network); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, network)
	network.Status.Clusters = int32(len(clusters.Items))
	network.Status.ObservedGeneration = network.Generation
	if err := r.describe(ctx, network, clusters.Items); err != nil {
		return result, err
	}
	return result, patcher.Patch(ctx)
}

func (r *Reconciler) describe(ctx context.Context, network *v1alpha1.Network, clusters []v1alpha1.Cluster) error {
	s := &network.Status
	if !network.DeletionTimestamp.IsZero() {
		s.Phase = v1alpha1.PhaseDeleting
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren, status.Children("clusters", status.Names(clusters)))
		return nil
	}
	parent := &v1alpha1.Account{}
	err := r.Get(ctx, client.ObjectKey{Namespace: network.Namespace, Name: network.Spec.Account}, parent)
	switch {
	case apierrors.IsNotFound(err):
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonParentMissing,
			fmt.Sprintf("spec.account: there is no account %q in this project; create it", network.Spec.Account))
	case err != nil:
		return err
	case parent.Status.Phase != v1alpha1.PhaseRunning:
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonParentNotReady,
			fmt.Sprintf("account %s is not ready yet", parent.Name))
	default:
		s.Phase = v1alpha1.PhaseRunning
		s.ID = string(network.UID)
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	}
	return nil
}
