package status

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// TasksByResource is the index of tasks by their resource's UID. Package cluster makes it.
const TasksByResource = "spec.resource.uid"

// Changing are the tasks that are made to change something. The others only look, and say nothing of how a resource fares.
func Changing(tasks []v1alpha1.Task) []v1alpha1.Task {
	return slices.DeleteFunc(tasks, func(t v1alpha1.Task) bool { return !t.Spec.Operation.Changes() })
}

// IndexBy lets objects be listed by a field, under the field's name.
func IndexBy[T client.Object](manager ctrl.Manager, object T, field string, value func(T) string) error {
	return manager.GetFieldIndexer().IndexField(context.Background(), object, field, func(object client.Object) []string {
		if typed, ok := object.(T); ok {
			return []string{value(typed)}
		}
		return nil
	})
}

// Parent wakes the object that another one names as its parent.
func Parent[T client.Object](parent func(T) client.ObjectKey) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		typed, ok := object.(T)
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: parent(typed)}}
	})
}

// Names are the names of the objects in a list's items.
func Names[T any, P interface {
	*T
	client.Object
}](items []T) []string {
	var names []string
	for i := range items {
		names = append(names, P(&items[i]).GetName())
	}
	return names
}

// Named are the names with their kind before them, for lists of several kinds.
func Named[T any, P interface {
	*T
	client.Object
}](kind string, items []T) []string {
	names := Names[T, P](items)
	for i := range names {
		names[i] = kind + " " + names[i]
	}
	return names
}

// Requests wake the objects in a list's items.
func Requests[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	var requests []reconcile.Request
	for i := range items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&items[i]))})
	}
	return requests
}

// Gone passes the end of objects only.
func Gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// ComesOrGoes passes the beginning and the end of objects, and no change.
func ComesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// Beyond passes changes of an object that go beyond what ignore takes away, which another controller keeps.
func Beyond[T client.Object](ignore func(T)) predicate.Predicate {
	rest := func(object client.Object) client.Object {
		rest, ok := object.DeepCopyObject().(T)
		if !ok {
			return object
		}
		ignore(rest)
		rest.SetResourceVersion("")
		rest.SetManagedFields(nil)
		return rest
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(rest(e.ObjectOld), rest(e.ObjectNew))
	}}
}
