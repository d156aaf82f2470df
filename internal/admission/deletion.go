package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// children are a kind of objects that may belong to a parent.
type children struct {
	plural string
	list   client.ObjectList
	mine   func(child client.Object) bool
}

// childless refuses to delete a parent while it has children, and names them.
func (q *question) childless(ctx context.Context, resource string, parent client.Object, namespace string, kinds ...children) error {
	if !parent.GetDeletionTimestamp().IsZero() {
		return nil // it was let go before; asking again changes nothing
	}
	for _, kind := range kinds {
		if err := q.world.List(ctx, kind.list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list %s: %w", kind.plural, err)
		}
		var names []string
		err := meta.EachListItem(kind.list, func(item runtime.Object) error {
			if child, ok := item.(client.Object); ok && kind.mine(child) {
				names = append(names, child.GetName())
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return forbidden(resource, parent, "it %s", status.Children(kind.plural, names))
		}
	}
	return nil
}

func all(client.Object) bool { return true }

func organization(ctx context.Context, q *question, object, _ *v1alpha1.Organization) error {
	if !q.deletes() {
		return nil
	}
	return q.childless(ctx, "organizations", object, "",
		children{"projects", &v1alpha1.ProjectList{}, func(child client.Object) bool {
			project, ok := child.(*v1alpha1.Project)
			return ok && project.Spec.Organization == object.Name
		}},
		children{"users", &v1alpha1.UserList{}, func(child client.Object) bool {
			user, ok := child.(*v1alpha1.User)
			return ok && user.Spec.Organization == object.Name
		}})
}

func (q *question) deleteProject(ctx context.Context, object *v1alpha1.Project) error {
	return q.childless(ctx, "projects", object, v1alpha1.NamespacePrefix+object.Name,
		children{"buckets", &v1alpha1.BucketList{}, all}, children{"clusters", &v1alpha1.ClusterList{}, all}, children{"networks", &v1alpha1.NetworkList{}, all})
}

func (q *question) deleteAccount(ctx context.Context, object *v1alpha1.Account) error {
	return q.childless(ctx, "accounts", object, object.Namespace,
		children{"networks", &v1alpha1.NetworkList{}, func(child client.Object) bool {
			network, ok := child.(*v1alpha1.Network)
			return ok && network.Spec.Account == object.Name
		}})
}

func (q *question) deleteNetwork(ctx context.Context, object *v1alpha1.Network) error {
	return q.childless(ctx, "networks", object, object.Namespace,
		children{"clusters", &v1alpha1.ClusterList{}, func(child client.Object) bool {
			cluster, ok := child.(*v1alpha1.Cluster)
			return ok && cluster.Spec.Network == object.Name
		}})
}
