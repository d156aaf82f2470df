package v1alpha1_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// example shows what a rule accepts and what it rejects: specs in YAML. With a from, they are what an object of that spec
// is changed to.
type example struct {
	kind    string
	from    string
	running string // the version in the status of a cluster
	accepts []string
	rejects []string
	field   string // that the message names
	says    string // the rule's message
}

// examples are those of all rules in CEL; TestEveryRuleHasAnExample keeps the list whole.
func examples() []example {
	return slices.Concat(identityExamples(), accountExamples(), stateExamples(), networkExamples(), clusterExamples(), versionExamples(),
		clusterTransitions(), cloudExamples(), nodeGroupExamples(), ownedExamples(),
		templateExamples("Cluster", "nodeGroups: {w: {", "}}", "spec.nodeGroups[w]"),
		templateExamples("NodeGroup", "cluster: dev, group: w, replicas: 2, template: {", "}", "spec.template"))
}

func TestRulesAcceptAndReject(t *testing.T) {
	c, namespace := newClient(t), server.Namespace(t)
	for _, e := range examples() {
		t.Run(e.kind+"/"+e.field+"/"+e.says, func(t *testing.T) {
			send := func(spec string) error {
				return c.Create(t.Context(), in(t, c, namespace, manifest(t, e.kind, "example", spec)), client.DryRunAll)
			}
			if e.from != "" {
				stored := in(t, c, namespace, manifest(t, e.kind, "example", e.from))
				store(t, c, stored, e.running)
				send = func(spec string) error {
					changed := in(t, c, namespace, manifest(t, e.kind, "example", spec))
					changed.SetResourceVersion(stored.GetResourceVersion())
					return c.Update(t.Context(), changed, client.DryRunAll)
				}
			}
			for _, spec := range e.accepts {
				if err := send(spec); err != nil {
					t.Errorf("%s is rejected: %v", spec, err)
				}
			}
			for _, spec := range e.rejects {
				if err := send(spec); !says(err, e.field, e.says) {
					t.Errorf("%s: got %v, want field %q and message %q", spec, err, e.field, e.says)
				}
			}
			if len(e.accepts) == 0 || len(e.rejects) == 0 {
				t.Error("shows one side of the rule only")
			}
		})
	}
}

// store creates an object until the end of the test, with a running version in its status if there is one.
func store(t *testing.T, c client.Client, object *unstructured.Unstructured, running string) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
	if running == "" {
		return
	}
	if err := unstructured.SetNestedField(object.Object, running, "status", "version"); err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// says tells whether the API server named the field and gave the message for it.
func says(err error, field, message string) bool {
	status, ok := err.(apierrors.APIStatus)
	if !apierrors.IsInvalid(err) || !ok {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == field && strings.Contains(cause.Message, message)
	})
}

// A rule that nobody has shown to reject anything may as well not be there.
func TestEveryRuleHasAnExample(t *testing.T) {
	type key struct{ kind, field, message string }
	shown := map[key]bool{}
	for _, e := range examples() {
		shown[key{e.kind, generic(e.field), e.says}] = true
	}
	for kind, crd := range definitions(t) {
		root := schemaOf(crd)
		spec := root.Properties["spec"]
		fields := declared("spec", &spec, map[string]*apiextensionsv1.JSONSchemaProps{"": root, "spec": &spec})
		for path, schema := range fields {
			for field, rules := range entryRules(path, schema) {
				for _, rule := range rules {
					at := strings.TrimPrefix(field+rule.FieldPath, ".")
					if !shown[key{kind, at, rule.Message}] && !strings.HasPrefix(rule.Message, "metadata.name:") {
						t.Errorf("no example of %s %q: %s", kind, at, rule.Message)
					}
				}
			}
		}
	}
}

// entryRules are the rules of a field and of its entries, by path.
func entryRules(path string, schema *apiextensionsv1.JSONSchemaProps) map[string]apiextensionsv1.ValidationRules {
	rules := map[string]apiextensionsv1.ValidationRules{path: schema.XValidations}
	if schema.Items != nil {
		rules[path+"[]"] = schema.Items.Schema.XValidations
	}
	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		rules[path+"[]"] = more.Schema.XValidations
	}
	return rules
}

func TestNames(t *testing.T) {
	c, namespace := newClient(t), server.Namespace(t)
	const letterFirst = "metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	const anyFirst = "metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning and ending with a letter or digit"
	longest := strings.Repeat("a", 40)
	for kind, message := range map[string]string{
		"Organization": anyFirst, "Project": anyFirst, "Account": letterFirst, "Network": letterFirst, "Cluster": letterFirst, "Bucket": letterFirst,
	} {
		spec := map[string]string{"Project": "organization: acme", "Bucket": "cluster: shop"}[kind]
		accepted, rejected := []string{"a", "dev-2", longest}, []string{longest + "a", "dev.example"}
		if message == anyFirst {
			accepted = append(accepted, "7up")
		} else {
			rejected = append(rejected, "7up")
		}
		for _, name := range accepted {
			if err := c.Create(t.Context(), in(t, c, namespace, manifest(t, kind, name, spec)), client.DryRunAll); err != nil {
				t.Errorf("%s %s is rejected: %v", kind, name, err)
			}
		}
		for _, name := range rejected {
			err := c.Create(t.Context(), in(t, c, namespace, manifest(t, kind, name, spec)), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message) {
				t.Errorf("%s %s: got %v, want %q", kind, name, err, message)
			}
		}
	}
}
