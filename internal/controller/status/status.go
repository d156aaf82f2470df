// Package status is what controllers have in common: writing conditions, patching an object once, and the finalizer that
// keeps a resource until what depends on it is gone.
package status

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Set sets a condition; its generation is the object's.
func Set(conditions *[]metav1.Condition, object client.Object, kind string, isTrue bool, reason, message string) {
	value := metav1.ConditionFalse
	if isTrue {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: object.GetGeneration(),
	})
}

// Patcher writes an object's status once, at the end of a reconciliation, and only where it has changed.
type Patcher struct {
	client client.Client
	object client.Object
	before client.Object
}

// NewPatcher remembers the object as it is.
func NewPatcher(c client.Client, object client.Object) *Patcher {
	before, _ := object.DeepCopyObject().(client.Object)
	return &Patcher{client: c, object: object, before: before}
}

// Patch writes what has changed in the status since NewPatcher.
func (p *Patcher) Patch(ctx context.Context) error {
	if reflect.DeepEqual(statusOf(p.before), statusOf(p.object)) {
		return nil
	}
	err := p.client.Status().Patch(ctx, p.object, client.MergeFrom(p.before))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func statusOf(object client.Object) any {
	return reflect.ValueOf(object).Elem().FieldByName("Status").Interface()
}

// EnsureFinalizer makes sure that the object is not gone before Release was called.
func EnsureFinalizer(ctx context.Context, c client.Client, object client.Object) error {
	before, _ := object.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

// Release lets a deleted object go.
func Release(ctx context.Context, c client.Client, object client.Object) error {
	before, _ := object.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	if err := client.IgnoreNotFound(c.Patch(ctx, object, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// Children says which objects keep a parent from going, for a condition's message.
func Children(kind string, names []string) string {
	slices.Sort(names)
	const most = 5
	list := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Sprintf("still has %s: %s; delete them first", kind, list)
}
