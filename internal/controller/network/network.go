// Package network keeps networks: that their account is there, how many clusters they have, and, on deletion, that none
// is left behind. Those in clouds are made by tasks.
package network

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/stack"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// ClustersByNetwork is the index of clusters by their network.
const ClustersByNetwork = "spec.network"

// Reconciler reconciles networks.
type Reconciler struct {
	client.Client
	// Keeper has tasks make networks in clouds; nil where there are none.
	Keeper *stack.Keeper
}

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
		Watches(&v1alpha1.Task{}, stack.Tasks("Network")).
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
	parent, err := r.parent(ctx, network)
	if err != nil {
		return result, err
	}
	inCloud := parent != nil && parent.Spec.Provider.IsCloud() && r.Keeper != nil
	if !network.DeletionTimestamp.IsZero() && len(clusters.Items) == 0 && !inCloud {
		return result, status.Release(ctx, r.Client, network)
	}
	if network.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, network); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, network)
	network.Status.Clusters = int32(len(clusters.Items))
	waiting := describe(network, clusters.Items, parent)
	switch {
	case inCloud && !waiting:
		gone, err := r.Keeper.Keep(ctx, resource(network))
		if err != nil {
			return result, err
		}
		if gone {
			return result, status.Release(ctx, r.Client, network)
		}
	case !inCloud:
		network.Status.ObservedGeneration = network.Generation
	}
	return result, patcher.Patch(ctx)
}

// parent is the network's account, or nil where there is none.
func (r *Reconciler) parent(ctx context.Context, network *v1alpha1.Network) (*v1alpha1.Account, error) {
	parent := &v1alpha1.Account{}
	err := r.Get(ctx, client.ObjectKey{Namespace: network.Namespace, Name: network.Spec.Account}, parent)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return parent, err
}

// resource is what a task makes of a network in a cloud.
func resource(network *v1alpha1.Network) stack.Resource {
	s := &network.Status
	return stack.Resource{
		Object: network, Kind: "Network", Stack: &s.StackStatus, Phase: &s.Phase, Observed: &s.ObservedGeneration, Conditions: &s.Conditions,
		Adopt: func(outputs map[string]string) {
			var made v1alpha1.NetworkStatus
			if text, ok := outputs[provisioner.OutputNetwork]; ok && json.Unmarshal([]byte(text), &made) == nil {
				s.ID, s.Subnets, s.ResourceGroup, s.NATAddresses = made.ID, made.Subnets, made.ResourceGroup, made.NATAddresses
			}
		},
	}
}

// describe says in the status what a network waits for, and tells whether it does. What is in a cloud already does not wait
// for its account.
func describe(network *v1alpha1.Network, clusters []v1alpha1.Cluster, parent *v1alpha1.Account) (waiting bool) {
	s := &network.Status
	inCloud := parent != nil && parent.Spec.Provider.IsCloud()
	switch {
	case !network.DeletionTimestamp.IsZero() && len(clusters) > 0:
		s.Phase = v1alpha1.PhaseDeleting
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren, status.Children("clusters", status.Names(clusters)))
	case inCloud && (s.Task != "" || !network.DeletionTimestamp.IsZero()):
		return false
	case parent == nil:
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonParentMissing,
			fmt.Sprintf("spec.account: there is no account %q in this project; create it", network.Spec.Account))
	case parent.Status.Phase != v1alpha1.PhaseRunning:
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, false, v1alpha1.ReasonParentNotReady,
			fmt.Sprintf("account %s is not ready yet", parent.Name))
	case inCloud:
		return false
	default:
		s.Phase = v1alpha1.PhaseRunning
		s.ID = string(network.UID)
		status.Set(&s.Conditions, network, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	}
	return true
}
