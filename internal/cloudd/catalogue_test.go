package cloudd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/release"
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

func TestTheDatastoreWaitsForACatalogueThatHasAnEtcd(t *testing.T) {
	const version = "v1.36.3"
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: catalogue.ConfigMapName}}
	write := func(images map[string]string) {
		offered, err := catalogue.New([]string{version}, nil)
		if err != nil {
			t.Fatal(err)
		}
		offered.Images = map[string]map[string]string{version: images}
		content, err := offered.Render()
		if err != nil {
			t.Fatal(err)
		}
		stored.Data = map[string]string{catalogue.ConfigMapKey: string(content)}
	}
	write(nil)
	world, informers := fake.NewFakeClient(stored), &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	o := &offers{reader: world, namespace: "system"}
	h := &hostedClusters{Daemon: &Daemon{config: &Config{Namespace: "system"}, offers: o}}
	asked := make(chan error, 10)
	done := make(chan error, 1)
	go func() {
		done <- o.await(t.Context(), informers, slog.New(slog.DiscardHandler), func() error {
			_, err := h.datastoreConfig()
			asked <- err
			return err
		})
	}()
	if err := <-asked; err == nil || !strings.Contains(err.Error(), "no image etcd") {
		t.Errorf("a catalogue without etcd is enough: %v", err)
	}
	informer.Update(stored, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "admission-ledger-default"}})
	for _, step := range []struct {
		images map[string]string
		lacks  string
	}{
		{map[string]string{etcdImage: "etcd:1"}, "no image " + release.ImageToolbox},
		{map[string]string{etcdImage: "etcd:1", release.ImageToolbox: "toolbox:1"}, ""},
	} {
		write(step.images)
		if err := world.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		informer.Update(stored, stored)
		if err := <-asked; (err == nil) != (step.lacks == "") || err != nil && !strings.Contains(err.Error(), step.lacks) {
			t.Errorf("with %v: %v", step.images, err)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("the catalogue has everything: %v", err)
	}
}

func TestWaitingForTheCatalogueEndsWithTheDaemon(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	o := &offers{reader: fake.NewFakeClient(), namespace: "system"}
	err := o.await(ctx, &informertest.FakeInformers{}, slog.New(slog.DiscardHandler), func() error {
		stop()
		_, err := o.get()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
