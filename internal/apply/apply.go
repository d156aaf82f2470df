// Package apply brings objects into a Kubernetes API: manifests rendered from templates, and server-side apply under a
// manager's name, so that what others set on the same objects stays.
package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Render fills in a template and returns the objects in it. A value that the template names and data lacks is an error.
func Render(files fs.FS, name string, data any) ([]*unstructured.Unstructured, error) {
	parsed, err := template.New("").Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var text bytes.Buffer
	if err := parsed.ExecuteTemplate(&text, path.Base(name), data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(object.Object) > 0 { // a document of comments alone is none
			objects = append(objects, object)
		}
	}
}

// Objects brings objects to what is given, in order. The manager owns the fields that are given; what other managers
// set stays.
func Objects(ctx context.Context, client dynamic.Interface, manager string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := one(ctx, client, manager, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Typed turns a typed object, with its kind set, into one that can be applied.
func Typed(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	// The API server's to write: to apply them would claim them.
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}, nil
}

func one(ctx context.Context, client dynamic.Interface, manager string, object *unstructured.Unstructured) error {
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	// The kinds are our own choice and regular, so no discovery is needed to name their resources.
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	force := true
	_, err = client.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
		types.ApplyPatchType, content, metav1.PatchOptions{FieldManager: manager, Force: &force})
	return err
}
