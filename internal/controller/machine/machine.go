// Package machine makes the machines that Machine objects ask for, by the driver of their account's provider, lets them
// join their cluster as nodes, and tells in their status how the nodes fare. A machine that is deleted is drained first,
// where there is anything left to drain. When a machine should be replaced is the business of its node group.
package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// ByCluster is the index of machines by their cluster.
const ByCluster = "spec.cluster"

// Tenants are the connections to the machines' clusters.
type Tenants interface {
	Get(cluster *v1alpha1.Cluster) (*tenant.Connection, error)
	Drop(cluster types.NamespacedName)
	Subscribe(notify func(tenant.Change))
}

// Reconciler reconciles machines.
type Reconciler struct {
	client.Client
	// API is the management cluster's, for what lies in the clusters' own namespaces and is read directly.
	API     kubernetes.Interface
	Tenants Tenants
	Drivers map[v1alpha1.Provider]machine.Driver
	// Setup makes machines nodes that do not boot as such; nil where there are none.
	Setup    Setup
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Catalogue is what the installation offers.
	Catalogue func() (*catalogue.Catalogue, error)
	// DrainTimeout is how long a machine's pods may take to leave; ten minutes where it is zero.
	DrainTimeout time.Duration
	// Concurrency is how many machines are looked at at once.
	Concurrency int
}

// scope carries what a reconciliation has loaded.
type scope struct {
	machine *v1alpha1.Machine
	// cluster has only its name and UID where it is gone.
	cluster     *v1alpha1.Cluster
	clusterGone bool
	group       *v1alpha1.NodeGroup // nil where there is none
	driver      machine.Driver      // nil where there is none for the account

	found      *machine.Machine   // as the driver knows it; nil where it does not
	connection *tenant.Connection // nil where the cluster's API does not answer
	node       *corev1.Node       // nil where there is none
	setup      Progress           // of a machine that does not boot as a node
}

// key is the machine's name for its driver.
func (s *scope) key() machine.Key {
	return machine.Key{Namespace: v1alpha1.InfrastructureNamespace(s.cluster), Cluster: s.cluster.Name, Name: s.machine.Name}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	s, err := r.load(ctx, request)
	if err != nil || s == nil {
		return result, err
	}
	deleting := !s.machine.DeletionTimestamp.IsZero()
	if !deleting {
		if err := status.EnsureFinalizer(ctx, r.Client, s.machine); err != nil {
			return result, err
		}
	}
	before := s.machine.DeepCopy()
	if deleting {
		var gone bool
		if result, gone, err = r.remove(ctx, s); gone && err == nil {
			return result, status.Release(ctx, r.Client, s.machine)
		}
	} else {
		result, err = r.keep(ctx, s)
	}
	problem := r.write(ctx, before, s)
	if apierrors.IsConflict(problem) && err == nil {
		return ctrl.Result{RequeueAfter: firstRetry}, nil
	}
	if err := errors.Join(err, problem); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// load reads all that a reconciliation looks at. A machine that is gone is nil.
func (r *Reconciler) load(ctx context.Context, request ctrl.Request) (*scope, error) {
	s := &scope{machine: &v1alpha1.Machine{}, cluster: &v1alpha1.Cluster{}}
	if err := r.Get(ctx, request.NamespacedName, s.machine); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if err := r.loadCluster(ctx, s); err != nil {
		return nil, err
	}
	account := &v1alpha1.Account{}
	err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: s.machine.Spec.Account}, account)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	s.driver = r.Drivers[account.Spec.Provider]
	if s.machine.Spec.NodeGroup == "" {
		return s, nil
	}
	group := &v1alpha1.NodeGroup{}
	err = r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: s.cluster.Name + "-" + s.machine.Spec.NodeGroup}, group)
	if err == nil {
		s.group = group
	}
	return s, client.IgnoreNotFound(err)
}

// loadCluster finds the machine's cluster, or what its owner reference still tells of it: another cluster of the same
// name is not the one.
func (r *Reconciler) loadCluster(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.machine.Namespace, Name: s.machine.Spec.Cluster}
	err := r.Get(ctx, key, s.cluster)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, owner := range s.machine.OwnerReferences {
		if owner.Kind == "Cluster" && owner.UID != s.cluster.UID {
			s.clusterGone = true
			s.cluster = &v1alpha1.Cluster{}
			s.cluster.Namespace, s.cluster.Name, s.cluster.UID = key.Namespace, key.Name, owner.UID
			return nil
		}
	}
	if apierrors.IsNotFound(err) {
		s.clusterGone = true
		s.cluster.Namespace, s.cluster.Name = key.Namespace, key.Name
	}
	return nil
}

// write writes the status, if it has changed since it was read. Somebody who was faster wins: the machine is looked at
// again.
func (r *Reconciler) write(ctx context.Context, before *v1alpha1.Machine, s *scope) error {
	s.machine.Status.ObservedGeneration = s.machine.Generation
	if equality.Semantic.DeepEqual(before.Status, s.machine.Status) {
		return nil
	}
	if err := client.IgnoreNotFound(r.Status().Update(ctx, s.machine)); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	r.tell(before, s)
	return nil
}
