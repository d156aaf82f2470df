package install

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api"
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
)

// removeDaemon takes the daemon off a cluster that is not ours. What it knows stays, and so do the roles and guards that
// keep tenants apart.
func (in *installation) removeDaemon(ctx context.Context) error {
	inside := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: Namespace, Name: name} }
	return in.removeAll(ctx,
		admission.Configuration(admission.Service(Namespace, "admission", 443, nil), platformUser),
		&appsv1.Deployment{ObjectMeta: inside(daemon)}, &policyv1.PodDisruptionBudget{ObjectMeta: inside(daemon)},
		&corev1.Service{ObjectMeta: inside(iamService)}, &corev1.Service{ObjectMeta: inside("admission")},
	)
}

// purge takes everything of the platform off a cluster that is not ours: first what people made, while the daemon is there
// to take it down, then the rest.
func (in *installation) purge(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"remove clusters, projects and users", in.removeObjects},
		{"remove the API", in.removeKinds},
		{"remove the daemon", in.removeDaemon},
		{"remove roles", in.removeRoles},
		{"remove the datastore", in.removeDatastore},
	} {
		in.progress.Step(step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// removeObjects deletes what people made. What belongs to that, such as tasks and machines, goes with it.
func (in *installation) removeObjects(ctx context.Context) error {
	// It would insist on children before parents; the controllers see to that by themselves.
	if err := in.removeAll(ctx, admission.Configuration(admission.Service(Namespace, "admission", 443, nil), platformUser)); err != nil {
		return err
	}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		left := 0
		for _, resource := range []string{"buckets", "clusters", "networks", "accounts", "projects", "accesstokens", "users", "organizations"} {
			found, err := in.dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // the kind is gone
			}
			if err != nil {
				return false, err
			}
			left += len(found.Items)
			for i := range found.Items {
				if found.Items[i].GetDeletionTimestamp() != nil {
					continue
				}
				if err := client.IgnoreNotFound(in.client.Delete(ctx, &found.Items[i])); err != nil {
					return false, err
				}
			}
		}
		in.progress.Report(fmt.Sprintf("%d left", left))
		if left > 0 {
			return false, fmt.Errorf("%d of them are left; is the daemon there to take them down?", left)
		}
		return true, nil
	})
}

// removeKinds deletes our kinds, and waits until they are gone.
func (in *installation) removeKinds(ctx context.Context) error {
	kinds, err := api.CRDs()
	if err != nil {
		return err
	}
	definitions := in.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for _, kind := range kinds {
		if err := client.IgnoreNotFound(definitions.Delete(ctx, kind.Name, metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		for _, kind := range kinds {
			_, err := definitions.Get(ctx, kind.Name, metav1.GetOptions{})
			if err == nil {
				err = fmt.Errorf("%s is still there", kind.Name)
			}
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

// removeRoles removes the platform's namespace, and who may do what.
func (in *installation) removeRoles(ctx context.Context) error {
	var objects []client.Object
	for _, object := range rbac.Management.ForCluster() {
		content, err := apply.Typed(object)
		if err != nil {
			return err
		}
		objects = append(objects, content)
	}
	access, err := apply.Render(manifests, "manifests/access.yaml", nil)
	if err != nil {
		return err
	}
	for _, object := range slices.Backward(access) {
		objects = append(objects, object)
	}
	return in.removeAll(ctx, objects...)
}

// removeDatastore removes the volumes, which are in no namespace, and waits until the platform's own is gone with what ran
// there. Data that volumes have on hosts are for the hosts' owner to remove.
func (in *installation) removeDatastore(ctx context.Context) error {
	var volumes corev1.PersistentVolumeList
	if err := in.client.List(ctx, &volumes, client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentDatastore}); err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	gone := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}}
	for i := range volumes.Items {
		gone = append(gone, &volumes.Items[i])
	}
	if err := in.removeAll(ctx, gone...); err != nil {
		return err
	}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		for _, object := range gone {
			err := in.client.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil {
				err = fmt.Errorf("%s is still there", object.GetName())
			}
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

func (in *installation) removeAll(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := client.IgnoreNotFound(in.client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove %s: %w", object.GetName(), err)
		}
	}
	return nil
}
