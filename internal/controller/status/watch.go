package status

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
