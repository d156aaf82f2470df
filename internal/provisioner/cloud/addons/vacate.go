package addons

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Belongings are what a cluster has in its cloud beside what its stack has made.
type Belongings struct {
	// Going is what is being removed by the cluster's own controllers, and has to be waited for.
	Going []string
	// Disks are the cloud's names of disks that hold data. They stay.
	Disks []string
}

// kind is one whose objects have something in the cloud.
type kind struct {
	schema.GroupVersionResource
	outside func(*unstructured.Unstructured) bool // tells which of its objects; all where it is nil
}

// outside are those kinds, in the order in which they have to go: what makes load balancers runs on nodes.
var outside = [][]kind{
	{
		{schema.GroupVersionResource{Version: "v1", Resource: "services"}, isLoadBalancer},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, nil},
		{schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}, nil},
	},
	{{schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}, hasOwnNodes("spec", "template", "spec")}},
	{{schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}, hasOwnNodes("spec")}},
}

func isLoadBalancer(service *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	return value == "LoadBalancer"
}

// hasOwnNodes tells that nodes are ours to remove. Those of Auto Mode go with their cluster.
func hasOwnNodes(template ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(object.Object, append(template, "nodeClassRef", "group")...)
		return group != "eks.amazonaws.com"
	}
}

// Vacate deletes what would be left in the cloud without the cluster, whose controllers alone know of it: load balancers
// and nodes that they have made. It does not wait: asked again, it tells what is still going.
func (i *Installer) Vacate(ctx context.Context, config *rest.Config) (Belongings, error) {
	var found Belongings
	if err := i.await(ctx, config, i.Patience/4); err != nil { // it is no new one
		return found, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return found, err
	}
	if found.Disks, err = disks(ctx, client); err != nil {
		return found, err
	}
	for _, kinds := range outside {
		for _, each := range kinds {
			going, err := each.remove(ctx, client)
			if err != nil {
				return found, err
			}
			found.Going = append(found.Going, going...)
		}
		if len(found.Going) > 0 {
			break
		}
	}
	return found, nil
}

// remove deletes the objects of a kind, and names those that are still there.
func (k kind) remove(ctx context.Context, client dynamic.Interface) (going []string, err error) {
	list, err := client.Resource(k.GroupVersionResource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // the kind itself
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Resource, err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		if k.outside != nil && !k.outside(object) {
			continue
		}
		if object.GetDeletionTimestamp() == nil {
			err := client.Resource(k.GroupVersionResource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		going = append(going, object.GetKind()+" "+cache.MetaObjectToName(object).String())
	}
	return going, nil
}

// disks are those of the cluster's volumes.
func disks(ctx context.Context, client dynamic.Interface) ([]string, error) {
	list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var names []string
	for _, volume := range list.Items {
		handle, found, _ := unstructured.NestedString(volume.Object, "spec", "csi", "volumeHandle")
		if !found {
			continue
		}
		driver, _, _ := unstructured.NestedString(volume.Object, "spec", "csi", "driver")
		claim, _, _ := unstructured.NestedString(volume.Object, "spec", "claimRef", "name")
		namespace, _, _ := unstructured.NestedString(volume.Object, "spec", "claimRef", "namespace")
		names = append(names, fmt.Sprintf("disk %s of %s, claim %s/%s", handle, driver, namespace, claim))
	}
	return names, nil
}
