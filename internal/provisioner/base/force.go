package base

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// replaceBroken gives up all workers that were broken when a forced repair was asked for. Their groups would replace a few
// at a time, and none where that does not help.
func (b *Build) replaceBroken(ctx context.Context) error {
	repair := b.Scope.Task
	if repair.Spec.Operation != v1alpha1.OperationRepair || !repair.Spec.Force {
		return nil
	}
	list, err := b.OfCluster(ResourceMachines).List(ctx, b.ClusterSelector())
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for i := range list.Items {
		m := &v1alpha1.Machine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, m); err != nil {
			return fmt.Errorf("read machine %s: %w", list.Items[i].GetName(), err)
		}
		if m.Spec.Role != v1alpha1.MachineWorker || m.DeletionTimestamp != nil || !m.CreationTimestamp.Before(&repair.CreationTimestamp) ||
			!meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionReady) {
			continue
		}
		b.Scope.Report("machine %s is replaced", m.Name)
		err := b.OfCluster(ResourceMachines).Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))})
		if Gone(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove machine %s: %w", m.Name, err)
		}
	}
	return nil
}
