package admission

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	definitions "plasmacloud.io/plasmacloud/api"
)

// pages are the documentation of the kinds, parents first.
var pages = []string{"Organization", "Project", "User", "AccessToken", "Account", "Network", "Cluster", "NodeGroup", "Machine", "Task", "Bucket"}

func page(t *testing.T, kind string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "api", strings.ToLower(kind)+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every manifest of the documentation is applied, page by page, first as a dry run and then for real.
func TestManifestsOfTheDocumentation(t *testing.T) {
	plain, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	c := client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	for _, kind := range pages {
		blocks := yamlBlock.FindAllStringSubmatch(page(t, kind), -1)
		if len(blocks) == 0 {
			t.Errorf("the page of %s has no manifest", kind)
		}
		for _, block := range blocks {
			for document := range strings.SplitSeq(block[1], "---\n") {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
					t.Fatalf("%s: %v\n%s", kind, err, document)
				}
				if object.GetKind() != kind {
					t.Errorf("the page of %s has a manifest of %s", kind, object.GetKind())
				}
				if err := c.Create(t.Context(), object.DeepCopy(), client.DryRunAll); err != nil {
					t.Errorf("%s %s, dry run: %v", kind, object.GetName(), err)
				}
				if err := c.Create(t.Context(), object); err != nil {
					t.Errorf("%s %s: %v", kind, object.GetName(), err)
				}
			}
		}
		if kind == "Project" { // its controller would
			if err := c.Create(t.Context(), named(&corev1.Namespace{}, "", "project-shop")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	entryOf  = regexp.MustCompile(`\[[^]]*\]`)
)

// Every field of a kind is on its page, and every field on the page exists.
func TestPagesTellOfEveryField(t *testing.T) {
	crds, err := definitions.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(crds) != len(pages) {
		t.Errorf("%d kinds, and %d pages", len(crds), len(pages))
	}
	for _, crd := range crds {
		kind := crd.Spec.Names.Kind
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		fields := map[string]bool{"spec": true, "status": true}
		for _, part := range []string{"spec", "status"} {
			schema := root.Properties[part]
			collect(part, &schema, fields)
		}
		told := map[string]bool{}
		for _, span := range codeSpan.FindAllStringSubmatch(yamlBlock.ReplaceAllString(page(t, kind), ""), -1) {
			path := entryOf.ReplaceAllString(span[1], "[]")
			if strings.HasPrefix(path, "spec.") || strings.HasPrefix(path, "status.") {
				told[path] = true
				if !fields[path] {
					t.Errorf("the page of %s tells of %s, which does not exist", kind, path)
				}
			}
		}
		for field := range fields {
			if !told[field] && !implied(kind, field, told) {
				t.Errorf("the page of %s does not tell of %s", kind, field)
			}
		}
	}
}

func collect(path string, schema *apiextensionsv1.JSONSchemaProps, fields map[string]bool) {
	for name, property := range schema.Properties {
		fields[path+"."+name] = true
		collect(path+"."+name, &property, fields)
	}
	if schema.Items != nil {
		collect(path+"[]", schema.Items.Schema, fields)
	}
	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		collect(path+"[]", more.Schema, fields)
	}
}

// implied fields need no line of their own: those that only hold others that are told, what conditions are made of, and
// a node group's template, which the page of clusters tells of.
func implied(kind, field string, told map[string]bool) bool {
	for other := range told {
		if strings.HasPrefix(other, field+".") || strings.HasPrefix(other, field+"[]") {
			return true
		}
	}
	return strings.HasPrefix(field, "status.conditions[]") || kind == "NodeGroup" && strings.HasPrefix(field, "spec.template.")
}
