package cluster

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// fieldManager names the launcher as the owner of the fields it sets.
const fieldManager = "k8shost"

// Objects are what a server applies to its cluster.
type Objects struct {
	Settings
	CoreDNSImage string
}

// Apply brings the cluster's objects to what this release wants. It may run on several servers at once. Of coredns
// and the rest, names in disabled are left out.
func (o Objects) Apply(ctx context.Context, client dynamic.Interface, disabled func(name string) bool) error {
	for _, name := range []string{"access", "settings", "coredns"} {
		if disabled(name) {
			continue
		}
		objects, err := o.render(name)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := apply(ctx, client, object); err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

func (o Objects) render(name string) ([]*unstructured.Unstructured, error) {
	parsed, err := template.ParseFS(manifests, "manifests/"+name+".yaml")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, o); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err == io.EOF {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		objects = append(objects, object)
	}
}

func apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	// The kinds are our own choice and regular, so no discovery is needed to name their resources.
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	force := true
	_, err = client.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
		types.ApplyPatchType, content, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	return err
}
