// Package release reads a built release of the distribution: which Kubernetes versions it holds, and for each of them
// the binaries and images with their checksums. The builder (internal/distro) writes what this package reads; whoever
// runs Kubernetes asks the Catalogue here and knows nothing of how a release is made.
//
// A release is a directory:
//
//	manifest.json          every artifact: name, kind, version, size, SHA-256
//	own.json               the same of the images of the project's own programs, which are built apart
//	sbom.cdx.json          what the artifacts are made of
//	kube/<version>/kube    the multi-call Kubernetes binary of each version
//	bin/<program>          programs that all versions share
//	images/                an OCI image layout that holds every image, each blob once
//	byoc/                  a release of its own, if it is built: what clusters in clouds need (cloud.go)
package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/mod/semver"
)

// Schema is the version of the manifest's format that this code reads and writes.
const Schema = 1

// ManifestName is the manifest's file name in the release directory.
const ManifestName = "manifest.json"

// OwnManifestName is the file that lists the images of the project's own programs. They change with every build, and
// the rest of a release with hardly any, so that neither rewrites the other's list.
const OwnManifestName = "own.json"

// ImagesDir is the OCI layout's place in the release directory.
const ImagesDir = "images"

// Kind says what an artifact is.
type Kind string

// The kinds of artifacts.
const (
	KindKube    Kind = "kube"    // a multi-call Kubernetes binary, one per Kubernetes version
	KindBinary  Kind = "binary"  // a program that all Kubernetes versions share
	KindImage   Kind = "image"   // a container image
	KindMachine Kind = "machine" // the machine image, one per Kubernetes version
	KindSBOM    Kind = "sbom"    // the bill of materials
	KindLock    Kind = "lock"    // a lock file of a Terraform provider
)

// Manifest lists everything in a release.
type Manifest struct {
	Schema    int        `json:"schema"`
	Artifacts []Artifact `json:"artifacts"`
}

// Artifact is one thing that a release holds.
type Artifact struct {
	Name    string `json:"name"`
	Kind    Kind   `json:"kind"`
	Version string `json:"version"` // its own true version, which an image's tag need not tell

	// Kubernetes is the Kubernetes version it belongs to; empty if it serves all.
	Kubernetes string `json:"kubernetes,omitempty"`

	// Path of the file, relative to the release directory; of an image, the file of its OCI manifest.
	Path string `json:"path"`

	// Size and SHA256 are the file's. An image's further files are listed in Blobs.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	// Refs are the names under which an image is imported, as kubeadm and the kubelet ask for it.
	Refs []string `json:"refs,omitempty"`

	// Blobs are an image's configuration and layers. Images share layers: the same blob appears in several artifacts.
	Blobs []Blob `json:"blobs,omitempty"`
}

// Blob is a file of the OCI layout, named by its content.
type Blob struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Path is the blob's place relative to the release directory.
func (b Blob) Path() string { return filepath.Join(ImagesDir, "blobs", "sha256", b.SHA256) }

// ImageSize is the size of an image with all that it is made of.
func (a Artifact) ImageSize() int64 {
	total := a.Size
	for _, blob := range a.Blobs {
		total += blob.Size
	}
	return total
}

// IsImage tells whether the artifact is a container image of whatever kind.
func (a Artifact) IsImage() bool {
	return a.Kind == KindImage || a.Kind == KindMachine
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate reports what makes the manifest unusable. A manifest is input: paths must stay inside of the release.
func (m *Manifest) Validate() error {
	if m.Schema != Schema {
		return fmt.Errorf("manifest has schema %d, this program reads schema %d", m.Schema, Schema)
	}
	var errs []error
	for _, a := range m.Artifacts {
		if a.Name == "" || a.Version == "" {
			errs = append(errs, fmt.Errorf("artifact %q at %q lacks a name or version", a.Name, a.Path))
		}
		if !filepath.IsLocal(a.Path) {
			errs = append(errs, fmt.Errorf("artifact %s: path %q is outside of the release", a.Name, a.Path))
		}
		if !hexDigest.MatchString(a.SHA256) {
			errs = append(errs, fmt.Errorf("artifact %s: %q is not a SHA-256", a.Name, a.SHA256))
		}
		if a.Kubernetes != "" && !semver.IsValid(a.Kubernetes) {
			errs = append(errs, fmt.Errorf("artifact %s: %q is not a Kubernetes version", a.Name, a.Kubernetes))
		}
		if slices.ContainsFunc(a.Blobs, func(b Blob) bool { return !hexDigest.MatchString(b.SHA256) }) {
			errs = append(errs, fmt.Errorf("artifact %s: a blob's name is not a SHA-256", a.Name))
		}
	}
	return errors.Join(errs...)
}

// ReadManifest reads and validates the manifest of the release in dir.
func ReadManifest(dir string) (*Manifest, error) {
	manifest, err := readManifest(filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no release in %s: build one with `make distro`: %w", dir, err)
	}
	return manifest, err
}

// ReadOwnManifest reads and validates the list of the project's own images in dir. Where there is none it is empty.
func ReadOwnManifest(dir string) (*Manifest, error) {
	manifest, err := readManifest(filepath.Join(dir, OwnManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return &Manifest{Schema: Schema}, nil
	}
	return manifest, err
}

func readManifest(path string) (*Manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read release manifest: %w", err)
	}
	manifest := new(Manifest)
	if err := json.Unmarshal(data, manifest); err != nil {
		return nil, fmt.Errorf("read release manifest %s: %w", path, err)
	}
	if err := manifest.Validate(); err != nil {
		return nil, fmt.Errorf("read release manifest %s: %w", path, err)
	}
	return manifest, nil
}
