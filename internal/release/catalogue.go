package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Names of the images that callers ask for by name.
const (
	ImagePause   = "pause"
	ImageCoreDNS = "coredns"
	ImageMachine = "machine"
	ImageToolbox = "toolbox"

	// ImageNode is a machine that becomes a node of a cluster as soon as it boots. It holds the project's own programs:
	// `make build` makes it out of ImageNodeBase, which is the same without them.
	ImageNode     = "node"
	ImageNodeBase = "node-base"

	// Konnectivity is the way from a hosted control plane to its nodes.
	ImageKonnectivityServer = "konnectivity-server"
	ImageKonnectivityAgent  = "konnectivity-agent"
)

// nodeImages are what a node needs before anything can be pulled: the sandbox of every pod, the cluster's DNS, and the
// way to a control plane that is elsewhere.
var nodeImages = []string{ImagePause, ImageCoreDNS, ImageKonnectivityAgent}

// Catalogue answers questions about one release. It is read once and does not change.
type Catalogue struct {
	dir      string
	manifest *Manifest
	versions []string // newest first
}

// PinnedImage is the label, and its value, by which the kubelet knows images that it must not remove where a disk runs
// full: there may be no registry to fetch them from again.
const PinnedImage = "io.cri-containerd.pinned=pinned"

// Open reads the release in dir.
func Open(dir string) (*Catalogue, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open release: %w", err)
	}
	manifest, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	own, err := ReadOwnManifest(dir)
	if err != nil {
		return nil, err
	}
	manifest.Artifacts = append(manifest.Artifacts, own.Artifacts...)
	c := &Catalogue{dir: dir, manifest: manifest}
	for _, a := range manifest.Artifacts {
		if a.Kind == KindKube {
			c.versions = append(c.versions, a.Kubernetes)
		}
	}
	semver.Sort(c.versions)
	slices.Reverse(c.versions)
	return c, nil
}

// Dir is the release's directory, as an absolute path.
func (c *Catalogue) Dir() string { return c.dir }

// Artifacts lists everything in the release.
func (c *Catalogue) Artifacts() []Artifact { return slices.Clone(c.manifest.Artifacts) }

// Versions lists the Kubernetes versions in the release, newest first.
func (c *Catalogue) Versions() []string { return slices.Clone(c.versions) }

// Resolve turns what a user wrote into a version of the release: nothing is the newest, a minor ("v1.35", "1.35") is
// its newest patch version, and a version in full ("v1.35.4", "1.35.4") is itself. The error lists what there is.
func (c *Catalogue) Resolve(want string) (string, error) {
	if len(c.versions) == 0 {
		return "", fmt.Errorf("the release in %s holds no Kubernetes version: build one with `make distro`", c.dir)
	}
	if want == "" {
		return c.versions[0], nil
	}
	version := "v" + strings.TrimPrefix(want, "v")
	if !semver.IsValid(version) || strings.Count(version, ".") == 0 {
		return "", fmt.Errorf("%q is not a Kubernetes version: have %s", want, strings.Join(c.versions, ", "))
	}
	for _, have := range c.versions {
		if have == version || semver.MajorMinor(have) == version {
			return have, nil
		}
	}
	return "", fmt.Errorf("no Kubernetes version %s in this release: have %s", want, strings.Join(c.versions, ", "))
}

// Kube is the path of the multi-call binary of a Kubernetes version.
func (c *Catalogue) Kube(version string) (string, error) {
	for _, a := range c.manifest.Artifacts {
		if a.Kind == KindKube && a.Kubernetes == version {
			return c.file(a.Path)
		}
	}
	return "", fmt.Errorf("no Kubernetes version %q in this release: have %s", version, strings.Join(c.versions, ", "))
}

// Binary is the path of a program that all versions share. The project's own programs, which change too often to be
// in the manifest, are found in the same place.
func (c *Catalogue) Binary(name string) (string, error) {
	for _, a := range c.manifest.Artifacts {
		if a.Kind == KindBinary && a.Name == name {
			return c.file(a.Path)
		}
	}
	if name != filepath.Base(name) {
		return "", fmt.Errorf("%q is not the name of a program", name)
	}
	return c.file(filepath.Join("bin", name))
}

func (c *Catalogue) file(path string) (string, error) {
	path = filepath.Join(c.dir, path)
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find program in the release (mend it with `make distro build`): %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("find program in the release: %s is not a file", path)
	}
	return path, nil
}

// Images lists the images that a node of this Kubernetes version brings along: pause, CoreDNS and konnectivity's agent.
func (c *Catalogue) Images(version string) []Artifact {
	var images []Artifact
	for _, a := range c.manifest.Artifacts {
		if a.Kind == KindImage && slices.Contains(nodeImages, a.Name) && (a.Kubernetes == version || a.Kubernetes == "") {
			images = append(images, a)
		}
	}
	return images
}

// ComponentImages lists the images that kubeadm of this Kubernetes version asks for.
func (c *Catalogue) ComponentImages(version string) []Artifact {
	var images []Artifact
	for _, a := range c.manifest.Artifacts {
		if a.Kind == KindImage && a.Kubernetes == version {
			images = append(images, a)
		}
	}
	return images
}

// Image finds an image by name ("pause", "kube-proxy", "machine", "toolbox"). Version is ignored for an image that
// serves all Kubernetes versions.
func (c *Catalogue) Image(name, version string) (Artifact, error) {
	for _, a := range c.manifest.Artifacts {
		if a.IsImage() && a.Name == name && (a.Kubernetes == version || a.Kubernetes == "") {
			return a, nil
		}
	}
	return Artifact{}, fmt.Errorf("no image %q for Kubernetes %s in the release at %s", name, version, c.dir)
}

// Refs are the names of the given images, as Export wants them.
func Refs(images ...Artifact) []string {
	var refs []string
	for _, image := range images {
		refs = append(refs, image.Refs...)
	}
	return refs
}
