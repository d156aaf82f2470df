// Package furnish keeps the objects of Kubernetes that our kinds are made of, such as a project's namespace and roles, as
// they should be: it applies them, and wakes a controller when somebody changes or deletes one.
package furnish

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"plasmacloud.io/plasmacloud/internal/apply"
)

// manager is the name under which controllers set fields.
const manager = "cloudd"

// Objects applies objects in their order. What is as it should be costs a request each, and changes nothing.
func Objects(ctx context.Context, c client.Client, objects []client.Object) error {
	for _, object := range objects {
		kind, err := c.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		err = one(ctx, c, object)
		if apierrors.IsInvalid(err) && isBinding(object) {
			// Somebody made one of this name for another role, which a binding can never change: it has to go first.
			if err = client.IgnoreNotFound(c.Delete(ctx, object)); err == nil {
				err = one(ctx, c, object)
			}
		}
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

func one(ctx context.Context, c client.Client, object client.Object) error {
	content, err := apply.Typed(object)
	if err != nil {
		return err
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(content), client.FieldOwner(manager), client.ForceOwnership)
}

func isBinding(object client.Object) bool {
	switch object.(type) {
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}

// Damaged passes changes and deletions. That an object appears is the controller's own doing.
func Damaged() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
}
