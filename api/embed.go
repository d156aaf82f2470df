// Package api holds the definitions of our kinds as a Kubernetes API server wants them, generated from the types in
// v1alpha1. Whoever installs the platform, or tests it, takes them from here.
package api

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/*.yaml
var definitions embed.FS

// CRDs are the definitions of all kinds, in the order of their names. Each call returns objects of the caller's own.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := definitions.ReadDir("crd")
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		content, err := definitions.ReadFile(path.Join("crd", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read definition: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("parse definition %s: %w", entry.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
