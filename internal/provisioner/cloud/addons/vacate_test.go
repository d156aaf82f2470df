package addons

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// present applies objects, each a document of YAML.
func present(t *testing.T, documents ...string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := newInstaller(t).applyNew(t.Context(), client, object); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// controlled ends what a controller in the cluster is to remove first.
func controlled(t *testing.T, client dynamic.Interface, k kind, namespace, name string) {
	t.Helper()
	patch := []byte(`{"metadata": {"finalizers": null}}`)
	if _, err := client.Resource(k.GroupVersionResource).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestVacateTakesAlongWhatControllersHaveMade(t *testing.T) {
	namespace := api.Namespace(t)
	own := func(format string) string { return fmt.Sprintf(format, namespace) }
	client := present(t,
		fmt.Sprintf(definition, "nodepools", "NodePool", "karpenter.sh"), fmt.Sprintf(definition, "nodeclaims", "NodeClaim", "karpenter.sh"),
		own(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: front, finalizers: [service.k8s.aws/resources]}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`),
		own(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: inside}, spec: {ports: [{port: 80}]}}`),
		own(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: %s, name: site}, spec: {defaultBackend: {service: {name: inside, port: {number: 80}}}}}`),
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: own, finalizers: [karpenter.sh/termination]}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws}}}}}`,
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: system}, spec: {template: {spec: {nodeClassRef: {group: eks.amazonaws.com}}}}}`,
		`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: own-1, finalizers: [karpenter.sh/termination]}, spec: {nodeClassRef: {group: karpenter.k8s.aws}}}`,
		own(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}, claimRef: {namespace: %[1]s, name: data}}}`),
	)
	i := newInstaller(t)
	expect := func(going ...string) {
		t.Helper()
		found, err := i.Vacate(t.Context(), api.Config())
		if err != nil || !slices.Equal(found.Going, going) || !slices.Equal(found.Disks, []string{"disk vol-1 of ebs.csi.aws.com, claim " + namespace + "/data"}) {
			t.Fatalf("%+v, %v; want %v", found, err, going)
		}
	}
	service, pool, claim := outside[0][0], outside[1][0], outside[2][0]
	_ = client.Resource(pool.GroupVersionResource).Delete(t.Context(), "default", metav1.DeleteOptions{}) // another test may have left it
	expect("Service "+namespace+"/front", "Ingress "+namespace+"/site")
	expect("Service " + namespace + "/front") // nodes are needed as long as something is to be removed by who runs there
	controlled(t, client, service, namespace, "front")
	expect("NodePool own")
	controlled(t, client, pool, "", "own")
	expect("NodeClaim own-1")
	controlled(t, client, claim, "", "own-1")
	expect()
	if _, err := client.Resource(service.GroupVersionResource).Namespace(namespace).Get(t.Context(), "inside", metav1.GetOptions{}); err != nil {
		t.Errorf("a service without a load balancer: %v", err)
	}
	if _, err := client.Resource(pool.GroupVersionResource).Get(t.Context(), "system", metav1.GetOptions{}); err != nil {
		t.Errorf("a pool of Auto Mode: %v", err)
	}
}
