package audit

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// watched are what clusters have on the management cluster that somebody might edit or remove. Secrets are not watched:
// the daemon does not read what it need not know.
func watched() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		appsv1.SchemeGroupVersion.WithResource("deployments"),
		corev1.SchemeGroupVersion.WithResource("services"),
		networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
	}
}

// Infrastructure follows what clusters have on the management cluster. It holds metadata only.
func Infrastructure(client metadata.Interface) func(ctx context.Context, changed func(cluster types.NamespacedName)) error {
	return func(ctx context.Context, changed func(cluster types.NamespacedName)) error {
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, metav1.NamespaceAll, func(options *metav1.ListOptions) {
			options.LabelSelector = base.LabelManagedBy + "=plasmacloud," + v1alpha1.LabelCluster + "," + v1alpha1.LabelProject
		})
		for _, resource := range watched() {
			_, err := factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
				AddFunc: func(object any, initially bool) {
					if !initially {
						changed(clusterOf(object))
					}
				},
				UpdateFunc: func(before, after any) {
					if edited(before, after) {
						changed(clusterOf(after))
					}
				},
				DeleteFunc: func(object any) { changed(clusterOf(object)) },
			})
			if err != nil {
				return fmt.Errorf("watch %s: %w", resource.Resource, err)
			}
		}
		factory.Start(ctx.Done())
		<-ctx.Done()
		factory.Shutdown()
		return nil
	}
}

// edited tells a change that might matter from one of the status alone.
func edited(before, after any) bool {
	was, ok := before.(*metav1.PartialObjectMetadata)
	is, alsoOK := after.(*metav1.PartialObjectMetadata)
	return !ok || !alsoOK || was.ResourceVersion != is.ResourceVersion && (is.Generation == 0 || was.Generation != is.Generation)
}

func clusterOf(object any) types.NamespacedName {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return types.NamespacedName{}
	}
	return types.NamespacedName{
		Namespace: v1alpha1.NamespacePrefix + meta.Labels[v1alpha1.LabelProject], Name: meta.Labels[v1alpha1.LabelCluster],
	}
}
