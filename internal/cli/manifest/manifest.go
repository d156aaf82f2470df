// Package manifest reads and writes objects of the management API as files: what a user wrote by hand, and what a command
// would have sent.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

const maxSize = 4 << 20

// Read reads an object of the kind from a file, or from stdin where its name is "-". What the kind does not have is an
// error: a misspelt field would otherwise be silently ignored.
func Read(path string, stdin io.Reader, kind schema.GroupVersionKind, object client.Object) error {
	content, err := load(path, stdin)
	if err != nil {
		return exit.With(exit.Usage, "", fmt.Errorf("--file: %w", err))
	}
	content, err = yaml.YAMLToJSONStrict(content)
	if err != nil {
		return exit.Usagef("--file: %s: %w", path, err)
	}
	head := &unstructured.Unstructured{}
	if err := json.UnmarshalCaseSensitivePreserveInts(content, &head.Object); err != nil {
		return exit.Usagef("--file: %s: %w", path, err)
	}
	if have := head.GroupVersionKind(); have != kind {
		return exit.Usagef("--file: %s: it has to be of apiVersion %s and kind %s, not %q and %q",
			path, kind.GroupVersion(), kind.Kind, head.GetAPIVersion(), head.GetKind())
	}
	slips, err := json.UnmarshalStrict(content, object)
	if err = errors.Join(append(slips, err)...); err != nil {
		return exit.Usagef("--file: %s: %w", path, err)
	}
	return nil
}

func load(path string, stdin io.Reader) ([]byte, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		stdin = file
	}
	content, err := io.ReadAll(io.LimitReader(stdin, maxSize+1))
	if err == nil && len(content) > maxSize {
		return nil, fmt.Errorf("%s is larger than any manifest", path)
	}
	return content, err
}

// Clean is the object as a person would write it: what is empty, or the API's to fill in, is left out. It is also what is
// sent, since the API puts its defaults only where nothing is.
func Clean(object client.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	clean := &unstructured.Unstructured{Object: content}
	clean.SetGroupVersionKind(kind)
	clean.SetManagedFields(nil)
	prune(content)
	if content["spec"] == nil {
		content["spec"] = map[string]any{} // which the API insists on
	}
	return clean, nil
}

// prune takes out what is empty. Numbers and booleans are not: zero and false mean something.
func prune(content map[string]any) {
	for key, value := range content {
		switch v := value.(type) {
		case nil:
			delete(content, key)
		case string:
			if v == "" {
				delete(content, key)
			}
		case []any:
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					prune(item)
				}
			}
			if len(v) == 0 {
				delete(content, key)
			}
		case map[string]any:
			prune(v)
			if len(v) == 0 {
				delete(content, key)
			}
		}
	}
}

// Show is an object of the API for programs to read, with its kind and without what is empty or the API's own
// bookkeeping.
func Show(object client.Object, kind schema.GroupVersionKind) (map[string]any, error) {
	object, _ = object.DeepCopyObject().(client.Object) // a copy of a client.Object is one
	object.SetManagedFields(nil)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	prune(content)
	return content, nil
}
