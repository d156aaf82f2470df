// Package account keeps the status of accounts: whether infrastructure can come from them, how many networks do take it
// from there, and, on deletion, that none is left behind.
package account

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// NetworksByAccount is the index of networks by their account.
const NetworksByAccount = "spec.account"

// Reconciler reconciles accounts.
type Reconciler struct {
	client.Client
	// SSH knows the hosts of accounts of provider SSH; nil where none are used.
	SSH Inventories
	// Clouds knows accounts in clouds; nil where nothing is made there.
	Clouds Clouds
	// Daemon is who reads the credentials of accounts.
	Daemon rbacv1.Subject
	// Now is the time; the clock's where it is nil.
	Now func() time.Time
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byAccount := func(network *v1alpha1.Network) string { return network.Spec.Account }
	if err := status.IndexBy(manager, &v1alpha1.Network{}, NetworksByAccount, byAccount); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Account{}).
		Watches(&v1alpha1.Network{}, status.Parent(func(network *v1alpha1.Network) client.ObjectKey {
			return client.ObjectKey{Namespace: network.Namespace, Name: network.Spec.Account}
		})).
		Watches(&v1alpha1.Machine{}, status.Parent(func(machine *v1alpha1.Machine) client.ObjectKey {
			return client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.Account}
		}), builder.WithPredicates(predicate.Funcs{UpdateFunc: moved})).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	account := &v1alpha1.Account{}
	if err := r.Get(ctx, request.NamespacedName, account); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	var networks v1alpha1.NetworkList
	if err := r.List(ctx, &networks, client.InNamespace(account.Namespace), client.MatchingFields{NetworksByAccount: account.Name}); err != nil {
		return result, err
	}
	if !account.DeletionTimestamp.IsZero() && len(networks.Items) == 0 {
		return result, status.Release(ctx, r.Client, account)
	}
	if account.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, account); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, account)
	account.Status.Networks = int32(len(networks.Items))
	account.Status.ObservedGeneration = account.Generation
	if result.RequeueAfter, err = r.describe(ctx, account, networks.Items); err != nil {
		return ctrl.Result{}, err
	}
	return result, patcher.Patch(ctx)
}

// moved tells whether a machine may have got its host, or another state.
func moved(update event.UpdateEvent) bool {
	before, ok := update.ObjectOld.(*v1alpha1.Machine)
	after, also := update.ObjectNew.(*v1alpha1.Machine)
	return ok && also && (before.Status.ID != after.Status.ID || before.Status.Address != after.Status.Address || before.Status.Phase != after.Status.Phase)
}

// describe sets phase and condition, and tells when to look again though nothing happens.
func (r *Reconciler) describe(ctx context.Context, account *v1alpha1.Account, networks []v1alpha1.Network) (time.Duration, error) {
	s := &account.Status
	switch {
	case !account.DeletionTimestamp.IsZero():
		s.Phase = v1alpha1.PhaseDeleting
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, v1alpha1.ReasonHasChildren, status.Children("networks", status.Names(networks)))
	case account.Spec.Provider == v1alpha1.ProviderLocal:
		s.Phase = v1alpha1.PhaseRunning
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	case account.Spec.Provider == v1alpha1.ProviderSSH && r.SSH != nil:
		return r.describeSSH(ctx, account)
	case account.Spec.Provider.IsCloud() && r.Clouds != nil && r.Clouds.Offers(account.Spec.Provider):
		return r.describeCloud(ctx, account)
	default:
		s.Phase = v1alpha1.PhasePending
		status.Set(&s.Conditions, account, v1alpha1.ConditionReady, false, v1alpha1.ReasonUnsupported,
			fmt.Sprintf("this version of the platform makes nothing at provider %s yet; use an account of provider Local", account.Spec.Provider))
	}
	return 0, nil
}
