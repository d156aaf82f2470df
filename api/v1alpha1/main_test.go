package v1alpha1_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

// server is a real API server with our kinds: only it can tell what it accepts.
var server *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &server)) }

// newClient talks to the API server, which refuses fields that it does not know.
func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// definitions are our kinds, by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := api.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range crds {
		byKind[crd.Spec.Names.Kind] = crd
	}
	return byKind
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// manifests reads objects from a file, as people write them.
func manifests(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

// manifest makes an object of a kind with a spec in YAML.
func manifest(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("spec: {"+spec+"}"), &object); err != nil {
		t.Fatalf("spec %s: %v", spec, err)
	}
	object["apiVersion"], object["kind"] = "plasmacloud.io/v1alpha1", kind
	object["metadata"] = map[string]any{"name": name}
	return &unstructured.Unstructured{Object: object}
}

// in puts an object of a namespaced kind into a namespace.
func in(t *testing.T, c client.Client, namespace string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	namespaced, err := c.IsObjectNamespaced(object)
	if err != nil {
		t.Fatal(err)
	}
	if namespaced {
		object.SetNamespace(namespace)
	}
	return object
}
