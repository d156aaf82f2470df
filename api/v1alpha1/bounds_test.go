package v1alpha1_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// place is a value in an object, with what the schema says of it.
type place struct {
	path   []any // names of fields and keys, indexes of items
	schema *apiextensionsv1.JSONSchemaProps
	value  any
}

// String is the path as the API server writes it.
func (p place) String() string { return written(p.path) }

func written(path []any) string {
	var b strings.Builder
	for _, step := range path {
		if index, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", index)
			continue
		}
		if b.Len() > 0 {
			b.WriteString(".")
		}
		b.WriteString(step.(string))
	}
	return b.String()
}

// places are a value and everything in it.
func places(p place) []place {
	found := []place{p}
	switch value := p.value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if property, ok := p.schema.Properties[name]; ok {
				found = append(found, places(place{step(p.path, name), &property, value[name]})...)
			} else if more := p.schema.AdditionalProperties; more != nil && more.Schema != nil {
				found = append(found, places(place{step(p.path, name), more.Schema, value[name]})...)
			}
		}
	case []any:
		for i, item := range value {
			found = append(found, places(place{step(p.path, i), p.schema.Items.Schema, item})...)
		}
	}
	return found
}

func step(path []any, next any) []any { return append(slices.Clone(path), next) }

// violation is a value that the schema's bounds do not allow.
type violation struct {
	bound string
	path  []any
	value any // nil to remove it
	says  string
}

// violations go just beyond each bound.
func violations(p place) []violation {
	var found []violation
	s := p.schema
	wrong := func(bound string, value any, says string) {
		found = append(found, violation{bound, p.path, value, says})
	}
	if len(s.Enum) > 0 {
		wrong("enum", "nonsense", "Unsupported value")
	}
	if s.Minimum != nil {
		wrong("minimum", int64(*s.Minimum)-1, "should be greater than or equal to")
	}
	if s.Maximum != nil {
		wrong("maximum", int64(*s.Maximum)+1, "should be less than or equal to")
	}
	if s.MinLength != nil {
		wrong("minLength", strings.Repeat("a", int(*s.MinLength)-1), "should be at least")
	}
	if s.MaxLength != nil {
		wrong("maxLength", strings.Repeat("a", int(*s.MaxLength)+1), "Too long")
	}
	if s.Pattern != "" {
		wrong("pattern", "!", "should match")
	}
	if s.Format == "date-time" {
		wrong("format", "tomorrow", "date-time")
	}
	if s.MinItems != nil {
		wrong("minItems", []any{}, "should have at least")
	}
	if items, ok := p.value.([]any); ok && s.MaxItems != nil {
		wrong("maxItems", slices.Repeat(items[:1], int(*s.MaxItems)+1), "must have at most")
	}
	if entries, ok := p.value.(map[string]any); ok && s.MaxProperties != nil {
		many := map[string]any{}
		for _, entry := range entries {
			for i := range *s.MaxProperties + 1 {
				many[fmt.Sprintf("key%d", i)] = entry
			}
		}
		wrong("maxProperties", many, "must have at most")
	}
	for _, name := range s.Required {
		if s.Properties[name].Default == nil {
			found = append(found, violation{"required", step(p.path, name), nil, "Required value"})
		}
	}
	return found
}

// with is a copy of the object in which the violation has been committed.
func with(object *unstructured.Unstructured, v violation) *unstructured.Unstructured {
	broken := object.DeepCopy()
	var at any = broken.Object
	for _, step := range v.path[:len(v.path)-1] {
		if index, ok := step.(int); ok {
			at = at.([]any)[index]
		} else {
			at = at.(map[string]any)[step.(string)]
		}
	}
	switch last := v.path[len(v.path)-1].(type) {
	case int:
		at.([]any)[last] = v.value
	case string:
		if at.(map[string]any)[last] = v.value; v.value == nil {
			delete(at.(map[string]any), last)
		}
	}
	return broken
}

// Every bound of the schema has an object that keeps it, one of testdata/full.yaml, and one that is just beyond.
func TestBoundsOfFieldsAreKept(t *testing.T) {
	c, crds, namespace := newClient(t), definitions(t), server.Namespace(t)
	for _, object := range manifests(t, "testdata/full.yaml") {
		object = in(t, c, namespace, object)
		t.Run(object.GetKind()+"/"+object.GetName(), func(t *testing.T) {
			if err := c.Create(t.Context(), object.DeepCopy(), client.DryRunAll); err != nil {
				t.Fatalf("the object itself is rejected: %v", err)
			}
			spec := schemaOf(crds[object.GetKind()]).Properties["spec"]
			for _, p := range places(place{[]any{"spec"}, &spec, object.Object["spec"]}) {
				for _, v := range violations(p) {
					err := c.Create(t.Context(), with(object, v), client.DryRunAll)
					if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), v.says) || !strings.Contains(err.Error(), written(v.path)) {
						t.Errorf("%s beyond its %s: got %v, want a message with the field and %q", written(v.path), v.bound, err, v.says)
					}
				}
			}
		})
	}
}

var ofEntries = regexp.MustCompile(`\[[^]]*\]`)

// generic is a path for all entries of lists and maps: spec.subnets[0].cidr becomes spec.subnets[].cidr.
func generic(path string) string { return ofEntries.ReplaceAllString(path, "[]") }

// declared are the paths of all fields below a schema, with what the schema says of them.
func declared(path string, schema *apiextensionsv1.JSONSchemaProps, fields map[string]*apiextensionsv1.JSONSchemaProps) map[string]*apiextensionsv1.JSONSchemaProps {
	for name, property := range schema.Properties {
		fields[path+"."+name] = &property
		declared(path+"."+name, &property, fields)
	}
	if schema.Items != nil {
		declared(path+"[]", schema.Items.Schema, fields)
	}
	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		declared(path+"[]", more.Schema, fields)
	}
	return fields
}

// The test above is worth what testdata/full.yaml holds: everything.
func TestFullObjectsSetEveryField(t *testing.T) {
	set := map[string]bool{}
	crds := definitions(t)
	for _, object := range manifests(t, "testdata/full.yaml") {
		spec := schemaOf(crds[object.GetKind()]).Properties["spec"]
		markSet(object.GetKind()+" spec", &spec, object.Object["spec"], set)
	}
	for kind, crd := range crds {
		spec := schemaOf(crd).Properties["spec"]
		for path := range declared("spec", &spec, map[string]*apiextensionsv1.JSONSchemaProps{}) {
			if !set[kind+" "+path] {
				t.Errorf("no %s in testdata/full.yaml sets %s", kind, path)
			}
		}
	}
}

func markSet(path string, schema *apiextensionsv1.JSONSchemaProps, value any, set map[string]bool) {
	set[path] = true
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			if property, ok := schema.Properties[name]; ok {
				markSet(path+"."+name, &property, v, set)
			} else if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
				markSet(path+"[]", more.Schema, v, set)
			}
		}
	case []any:
		for _, item := range value {
			markSet(path+"[]", schema.Items.Schema, item, set)
		}
	}
}
