package cloudd

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/internal/catalogue"
)

func TestTheCatalogueIsParsedOncePerVersion(t *testing.T) {
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: catalogue.ConfigMapName}}
	write := func(versions ...string) {
		offered, err := catalogue.New(versions, nil)
		if err != nil {
			t.Fatal(err)
		}
		content, err := offered.Render()
		if err != nil {
			t.Fatal(err)
		}
		stored.Data = map[string]string{catalogue.ConfigMapKey: string(content)}
	}
	write("v1.35.4")
	world := fake.NewFakeClient(stored)
	o := &offers{reader: world, namespace: "system"}
	first, err := o.get()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := o.get(); err != nil || again != first {
		t.Errorf("it was parsed again: %v", err)
	}
	write("v1.36.3", "v1.35.4")
	if err := world.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	changed, err := o.get()
	if err != nil || changed == first {
		t.Fatalf("it has changed, and that is not seen: %v", err)
	}
	if version, err := changed.ResolveVersion(""); err != nil || version != "v1.36.3" {
		t.Errorf("the newest version is %q: %v", version, err)
	}
	if _, err := (&offers{reader: world, namespace: "elsewhere"}).get(); err == nil {
		t.Error("there is no catalogue, and that is not told")
	}
}
