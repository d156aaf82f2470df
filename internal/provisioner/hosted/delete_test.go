package hosted

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

var removed = []string{"remove-nodes", "remove-control-plane", "remove-datastore", "remove-identity", "remove-namespace"}

// delete asks for the cluster's deletion, as a person does.
func (w *world) delete() {
	w.t.Helper()
	if err := w.clusters(w.cluster.Namespace).Delete(w.t.Context(), w.cluster.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.reload()
}

// nothingIsLeft fails the test unless all traces of the cluster are gone.
func (w *world) nothingIsLeft() {
	w.t.Helper()
	if _, err := w.client.CoreV1().Namespaces().Get(w.t.Context(), w.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("namespace %s: %v", w.namespace, err)
	}
	if len(w.store.tenants) > 0 || len(w.identities.clients) > 0 {
		w.t.Errorf("left: %v, %v", w.store.tenants, w.identities.clients)
	}
	for name := range maps.Keys(w.snapshot()) {
		if strings.HasPrefix(name, w.cluster.Namespace+" ") {
			w.t.Errorf("%s is left", name)
		}
	}
	if left := w.outputs[provisioner.OutputInventory]; left != "" {
		w.t.Errorf("the inventory says %s is left", left)
	}
}

// A deletion may come at any point of a creation.
func TestDeletionOfWhatIsHalfMade(t *testing.T) {
	for i := range len(created) + 1 {
		name := "before the first step"
		if i > 0 {
			name = "after " + created[i-1]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run(v1alpha1.OperationCreate, created[:i]...)
			if i > 0 && !strings.Contains(w.outputs[provisioner.OutputInventory], "Namespace/"+w.namespace) {
				t.Errorf("the inventory says %q", w.outputs[provisioner.OutputInventory])
			}
			w.delete()
			w.run(v1alpha1.OperationDelete, removed...)
			w.run(v1alpha1.OperationDelete, removed...) // once more, as after a crash
			w.nothingIsLeft()
		})
	}
}

// A creation that waits makes room for a deletion at once.
func TestDeletionInterruptsWaiting(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	returned := make(chan error, 1)
	go func() { returned <- w.try(t.Context(), v1alpha1.OperationCreate, "api") }()
	select {
	case err := <-returned:
		t.Fatalf("the API cannot have answered: %v", err)
	case <-time.After(time.Second):
	}
	if err := w.clusters(w.cluster.Namespace).Delete(t.Context(), w.cluster.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-returned:
		if err == nil {
			t.Error("the step says that the API answers")
		}
	case <-time.After(5 * time.Second):
		t.Error("the step goes on waiting for a cluster that is to be deleted")
	}
}

func TestNodesGoFirst(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	w.makeNodeGroup("workers", v1alpha1.Finalizer)
	w.delete()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := w.try(ctx, v1alpha1.OperationDelete, "remove-nodes"); err == nil {
		t.Fatal("nodes are gone though nobody removed them")
	}
	// Now their controller does.
	groups := w.build("").OfCluster(base.ResourceNodeGroups)
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := groups.Patch(t.Context(), "dev-workers", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run(v1alpha1.OperationDelete, removed...)
	w.nothingIsLeft()
}

// makeNodeGroup makes a group as the controller of clusters does.
func (w *world) makeNodeGroup(name string, finalizers ...any) *unstructured.Unstructured {
	w.t.Helper()
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeGroup",
		"metadata": map[string]any{
			"name": "dev-" + name, "namespace": w.cluster.Namespace, "finalizers": finalizers,
			"labels":          map[string]any{v1alpha1.LabelCluster: "dev"},
			"ownerReferences": []any{map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster", "name": "dev", "uid": string(w.cluster.UID)}},
		},
		"spec": map[string]any{"cluster": "dev", "group": name, "replicas": int64(2), "template": map[string]any{"minReplicas": int64(0), "maxReplicas": int64(10)}},
	}}
	made, err := w.build("").OfCluster(base.ResourceNodeGroups).Create(w.t.Context(), content, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// With force, what nobody cleans up after goes all the same.
func TestForceGoesOnWithoutWhatIsLost(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	w.makeNodeGroup("workers", v1alpha1.Finalizer)
	patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationForce + `":"true"}}}`)
	if _, err := w.clusters(w.cluster.Namespace).Patch(t.Context(), "dev", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.delete()
	b := w.build("remove-nodes")
	old := metav1.NewTime(time.Now().Add(-time.Hour))
	b.Scope.Task.Status.Steps[0].StartedAt = &old
	if err := b.RemoveNodes(t.Context()); err != nil {
		t.Fatalf("a node group that nobody cleans up after stays: %v", err)
	}
	w.store.failing = errors.New("the datastore is lost")
	b = w.build("remove-datastore")
	if err := b.removeDatastore(t.Context()); err == nil {
		t.Error("the datastore is given up at the first failure")
	}
	b.Scope.Attempt = base.ForcedAttempts + 1
	if err := b.removeDatastore(t.Context()); err != nil {
		t.Error(err)
	}
	w.store.tenants = nil
	w.run(v1alpha1.OperationDelete, "remove-identity", "remove-namespace")
	w.nothingIsLeft()
}

func TestAnotherClustersNodesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	group := w.makeNodeGroup("workers")
	w.cluster.UID = "another" // as of a cluster of the same name, made before
	w.run(v1alpha1.OperationDelete, "remove-nodes")
	if _, err := w.build("").OfCluster(base.ResourceNodeGroups).Get(t.Context(), group.GetName(), metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestInventoryNamesEverything(t *testing.T) {
	w := newWorld(t)
	var kinds []string
	for _, item := range w.build("").inventory() {
		kinds = append(kinds, item.Kind)
	}
	slices.Sort(kinds)
	if want := []string{kindTenant, kindIdentity, base.KindNamespace, base.KindSecret}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
}
