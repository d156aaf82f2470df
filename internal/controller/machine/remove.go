package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
)

const (
	defaultDrainTimeout = 10 * time.Minute
	drainInterval       = time.Second
	// goneInterval is how often it is looked whether a machine is gone, where its driver does not tell.
	goneInterval = 500 * time.Millisecond
	// forceTimeout is how long a machine may take to go before a forced deletion leaves it.
	forceTimeout = 30 * time.Second
)

// remove takes the machine out of its cluster and removes it. gone tells that nothing is left.
func (r *Reconciler) remove(ctx context.Context, s *scope) (result ctrl.Result, gone bool, err error) {
	describe(s.machine, v1alpha1.PhaseDeleting, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "the machine is being removed")
	if s.driver == nil {
		return r.leave(s, fmt.Errorf("there is no account %s, or this version makes no machines at its provider", s.machine.Spec.Account))
	}
	s.found, err = s.driver.Get(ctx, s.key())
	if err != nil && !errors.Is(err, machine.ErrNotFound) {
		return r.leave(s, err)
	}
	staying := !s.clusterGone && s.cluster.DeletionTimestamp.IsZero()
	if staying {
		if connection, problem := r.Tenants.Get(s.cluster); problem == nil {
			s.connection, s.node = connection, connection.Node(s.machine.Name)
		}
		if left, err := r.drain(ctx, s); left || err != nil {
			return ctrl.Result{RequeueAfter: drainInterval}, false, err
		}
	}
	if r.Setup != nil && !r.Setup.End(s.machine.UID) {
		return ctrl.Result{RequeueAfter: goneInterval}, false, nil
	}
	// Even what nobody has seen may be there: its making may have ended before it could be written down.
	if err := s.driver.Delete(ctx, s.key()); err != nil {
		return r.leave(s, err)
	}
	if s.found, err = s.driver.Get(ctx, s.key()); err == nil {
		message := strings.TrimSuffix("the machine is going: "+s.found.Message, ": ")
		describe(s.machine, v1alpha1.PhaseDeleting, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message)
		return r.leave(s, nil)
	}
	if !errors.Is(err, machine.ErrNotFound) {
		return r.leave(s, err)
	}
	if staying {
		if left, err := r.strikeOff(ctx, s); left || err != nil {
			return ctrl.Result{RequeueAfter: drainInterval}, false, err
		}
	}
	return ctrl.Result{}, true, errors.Join(r.withdraw(ctx, s), r.dropHostKey(ctx, s))
}

// leave tells what keeps the machine from going. Where its cluster's deletion is forced, it goes all the same after a
// while: what is left of it is named in an event.
func (r *Reconciler) leave(s *scope, problem error) (ctrl.Result, bool, error) {
	_, forced := s.cluster.Annotations[v1alpha1.AnnotationForce]
	if since := r.Clock.Since(s.machine.DeletionTimestamp.Time); forced && since > forceTimeout {
		r.Recorder.Eventf(s.machine, nil, "Warning", "Abandoned", "Delete", "deletion is forced: machine %s may be left behind at its provider%s", s.key(), why(problem))
		return ctrl.Result{}, true, nil
	}
	if problem != nil {
		describe(s.machine, v1alpha1.PhaseDeleting, metav1.ConditionFalse, ReasonProviderError,
			fmt.Sprintf("the machine cannot be removed: %v; it is tried again (deletion of the cluster with --force leaves it)", problem))
		return ctrl.Result{}, false, problem
	}
	return ctrl.Result{RequeueAfter: goneInterval}, false, nil
}

// strikeOff removes the node of a machine that is gone from its cluster, and tells whether that has to wait. Not before:
// the cluster would start the node's pods elsewhere while they might still run.
func (r *Reconciler) strikeOff(ctx context.Context, s *scope) (left bool, err error) {
	late := r.Clock.Since(s.machine.DeletionTimestamp.Time) > r.drainTimeout()
	switch {
	case s.connection == nil && s.machine.Status.NodeName != "" && !late:
		describe(s.machine, v1alpha1.PhaseDeleting, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "the machine is gone; waiting for the cluster's API to strike off its node")
		return true, nil
	case s.connection == nil || s.node == nil:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tenantTimeout)
	defer cancel()
	err = s.connection.Client().CoreV1().Nodes().Delete(ctx, s.node.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(s.node.UID)),
	})
	if err == nil || apierrors.IsNotFound(err) || late {
		return false, nil
	}
	return false, fmt.Errorf("strike off node %s: %w", s.node.Name, err)
}

func (r *Reconciler) drainTimeout() time.Duration {
	if r.DrainTimeout > 0 {
		return r.DrainTimeout
	}
	return defaultDrainTimeout
}
