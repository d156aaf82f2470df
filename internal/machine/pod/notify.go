package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
)

// Notify calls changed for every machine that there is and then for every one that changes, until ctx ends.
func (d *Driver) Notify(ctx context.Context, changed func(machine.Key)) error {
	factory := informers.NewSharedInformerFactoryWithOptions(d.client, 0,
		informers.WithTransform(withoutFields),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = labels.Set{v1alpha1.LabelComponent: v1alpha1.ComponentMachine}.String()
		}))
	tell := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if pod, ok := object.(*corev1.Pod); ok {
			changed(keyOf(pod))
		}
	}
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			old, was := before.(*corev1.Pod)
			now, is := after.(*corev1.Pod)
			if was && is && *show(old) == *show(now) {
				return
			}
			tell(after)
		},
		DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// withoutFields drops what nobody reads here and most of an object's size is made of.
func withoutFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}
