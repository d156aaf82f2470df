package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

const (
	// tenantTimeout is how long a cluster's API may take for what is asked of it at once.
	tenantTimeout = 10 * time.Second

	// How often a driver that does not tell of changes is asked: about a machine that is being made or removed, and
	// about one that runs. A driver that does is asked now and then all the same.
	changingInterval = time.Second
	runningInterval  = time.Minute
	pendingInterval  = 5 * time.Second
	notifiedInterval = 10 * time.Minute

	// joinInterval is how often it is looked whether the cluster says by now how machines join it.
	joinInterval = 500 * time.Millisecond
)

// keep makes the machine, lets it join, and looks after its node.
func (r *Reconciler) keep(ctx context.Context, s *scope) (ctrl.Result, error) {
	if s.clusterGone {
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, s.machine))
	}
	if err := r.provide(ctx, s); err != nil {
		return unprovided(s, err)
	}
	if s.found != nil {
		s.machine.Status.ID = s.found.ID
		if s.found.Address != "" {
			s.machine.Status.Address = s.found.Address
		}
	}
	connection, problem := r.Tenants.Get(s.cluster)
	err := error(nil)
	if problem == nil {
		s.connection, s.node = connection, connection.Node(s.machine.Name)
		err = r.attend(ctx, s)
	}
	r.setUp(ctx, s)
	if err == nil || Joined(s.machine) {
		observe(s, problem)
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(r.interval(s), 0.1)}, err
}

// interval is how soon the machine is looked at again when nothing happens.
func (r *Reconciler) interval(s *scope) time.Duration {
	_, notifies := s.driver.(Notifier)
	changes := s.found != nil && s.found.State == machine.StatePending
	switch {
	case s.overSSH() && !s.controlPlane() && !changes && !Joined(s.machine):
		return pendingInterval // its cluster says how to join it, and tells nobody of it
	case notifies && !changes:
		return notifiedInterval
	case notifies:
		return pendingInterval // what it told before the machine was written down was told to nobody
	case changes:
		return changingInterval
	default:
		return runningInterval
	}
}

// alive tells whether the machine runs, or will.
func (s *scope) alive() bool {
	return s.found != nil && (s.found.State == machine.StatePending || s.found.State == machine.StateRunning)
}

// attend does what is to be done in the machine's cluster.
func (r *Reconciler) attend(ctx context.Context, s *scope) error {
	ready := s.node != nil && (nodeReady(s.node) || s.awaitsPodNetwork())
	if s.alive() && !ready && !Joined(s.machine) && !s.controlPlane() {
		if err := r.publish(ctx, s); err != nil {
			return err
		}
	}
	if s.node == nil {
		return nil
	}
	s.machine.Status.NodeName = s.node.Name
	if err := r.label(ctx, s); err != nil {
		return err
	}
	if ready && !Joined(s.machine) {
		if err := r.withdraw(ctx, s); err != nil {
			return err
		}
		set(s.machine, ConditionJoined, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	}
	return nil
}

// label gives the node the labels that its kubelet may not set itself, or that somebody has taken away.
func (r *Reconciler) label(ctx context.Context, s *scope) error {
	if !s.current() || !s.node.DeletionTimestamp.IsZero() {
		return nil
	}
	missing := s.labels()
	maps.DeleteFunc(missing, func(key, value string) bool {
		have, ok := s.node.Labels[key]
		return ok && have == value
	})
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": missing}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tenantTimeout)
	defer cancel()
	_, err = s.connection.Client().CoreV1().Nodes().Patch(ctx, s.node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "plasmacloud"})
	if err != nil {
		return fmt.Errorf("label node %s: %w", s.node.Name, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool { return tenant.ReadyStatus(node) == corev1.ConditionTrue }

// awaitsPodNetwork tells whether a pod network is all that the node lacks, and the customer is the one to install it.
func (s *scope) awaitsPodNetwork() bool {
	return s.cluster.Spec.ClusterNetwork.CNI == v1alpha1.CNINone && tenant.LacksPodNetwork(s.node)
}

func nodeMessage(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Message
		}
	}
	return "it has not said anything yet"
}
