package release

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations by which containerd, and every other reader of OCI layouts, learns an image's name.
const (
	annotationName    = "io.containerd.image.name"
	annotationRefName = "org.opencontainers.image.ref.name"
)

// layoutMarker is the content of the file oci-layout.
const layoutMarker = `{"imageLayoutVersion":"1.0.0"}`

// Export streams the images with the given names as one OCI archive, which `ctr images import -` reads. Blobs that
// images share are written once.
func (c *Catalogue) Export(w io.Writer, refs ...string) error {
	images := make([]Artifact, 0, len(refs))
	for _, ref := range refs {
		image, err := c.byRef(ref)
		if err != nil {
			return err
		}
		image.Refs = []string{ref}
		images = append(images, image)
	}
	index, err := Index(images)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := writeBytes(out, "oci-layout", []byte(layoutMarker)); err != nil {
		return err
	}
	if err := writeBytes(out, "index.json", index); err != nil {
		return err
	}
	written := make(map[string]bool)
	for _, image := range images {
		for _, blob := range append([]Blob{{SHA256: image.SHA256, Size: image.Size}}, image.Blobs...) {
			if written[blob.SHA256] {
				continue
			}
			written[blob.SHA256] = true
			if err := c.writeBlob(out, blob); err != nil {
				return err
			}
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("export images: %w", err)
	}
	return nil
}

// byRef finds an image by the name under which it is imported.
func (c *Catalogue) byRef(ref string) (Artifact, error) {
	var have []string
	for _, a := range c.manifest.Artifacts {
		if slices.Contains(a.Refs, ref) {
			return a, nil
		}
		have = append(have, a.Refs...)
	}
	return Artifact{}, fmt.Errorf("no image %s in the release at %s: have %s", ref, c.dir, strings.Join(have, ", "))
}

// Index is the content of index.json for the given images: one entry for each name.
func Index(images []Artifact) ([]byte, error) {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	named := make(map[string]bool)
	for _, image := range images {
		for _, ref := range image.Refs {
			if named[ref] {
				continue
			}
			named[ref] = true
			index.Manifests = append(index.Manifests, v1.Descriptor{
				MediaType:   types.OCIManifestSchema1,
				Size:        image.Size,
				Digest:      v1.Hash{Algorithm: "sha256", Hex: image.SHA256},
				Annotations: map[string]string{annotationName: ref, annotationRefName: ref},
			})
		}
	}
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write image index: %w", err)
	}
	return data, nil
}

// WriteLayout writes the two files that make a directory of blobs an OCI layout; they are replaced as a whole.
func WriteLayout(dir string, images []Artifact) error {
	index, err := Index(images)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"oci-layout": []byte(layoutMarker), "index.json": index} {
		if err := WriteIfChanged(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalogue) writeBlob(out *tar.Writer, blob Blob) error {
	file, err := os.Open(filepath.Join(c.dir, blob.Path()))
	if err != nil {
		return fmt.Errorf("export images: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	return writeEntry(out, "blobs/sha256/"+blob.SHA256, blob.Size, file)
}

func writeBytes(out *tar.Writer, name string, data []byte) error {
	return writeEntry(out, name, int64(len(data)), bytes.NewReader(data))
}

func writeEntry(out *tar.Writer, name string, size int64, content io.Reader) error {
	header := &tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := out.WriteHeader(header); err != nil {
		return fmt.Errorf("export images: %w", err)
	}
	if _, err := io.Copy(out, content); err != nil {
		return fmt.Errorf("export images: write %s: %w", name, err)
	}
	return nil
}
