package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"plasmacloud.io/plasmacloud/internal/release"
)

// searchPath is the PATH of every image; manifests name programs without a directory.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image is what an image is made of.
type Image struct {
	Name       string // artifact name
	Kind       release.Kind
	Version    string // true version of what is in it
	Kubernetes string
	Refs       []string
	Layers     []*Layer
	Entrypoint []string
	Cmd        []string
	Env        []string // besides PATH
	User       string
	StopSignal string
	Arch       string
}

// Write writes the image's configuration and manifest into dir, beside the layers' blobs or elsewhere, and returns its
// entry of the release manifest.
func (i Image) Write(dir string) (release.Artifact, error) {
	image, err := i.assemble()
	if err != nil {
		return release.Artifact{}, fmt.Errorf("write image %s: %w", i.Name, err)
	}
	config, configErr := image.RawConfigFile()
	manifest, manifestErr := image.RawManifest()
	configName, configNameErr := image.ConfigName()
	digest, digestErr := image.Digest()
	if err := errors.Join(configErr, manifestErr, configNameErr, digestErr); err != nil {
		return release.Artifact{}, fmt.Errorf("write image %s: %w", i.Name, err)
	}
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755),  //nolint:gosec // images are public
		os.WriteFile(BlobPath(dir, configName.Hex), config, 0o644), //nolint:gosec // images are public
		os.WriteFile(BlobPath(dir, digest.Hex), manifest, 0o644),   //nolint:gosec // images are public
	); err != nil {
		return release.Artifact{}, fmt.Errorf("write image %s: %w", i.Name, err)
	}
	blobs := []release.Blob{{SHA256: configName.Hex, Size: int64(len(config))}}
	for _, layer := range i.Layers {
		blobs = append(blobs, release.Blob{SHA256: layer.SHA256, Size: layer.Bytes})
	}
	return release.Artifact{
		Name: i.Name, Kind: i.Kind, Version: i.Version, Kubernetes: i.Kubernetes,
		Path: release.Blob{SHA256: digest.Hex}.Path(), Size: int64(len(manifest)), SHA256: digest.Hex,
		Refs: i.Refs, Blobs: blobs,
	}, nil
}

func (i Image) assemble() (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	additions := make([]mutate.Addendum, 0, len(i.Layers))
	for _, layer := range i.Layers {
		additions = append(additions, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayerZStd, History: v1.History{Created: v1.Time{Time: Epoch}},
		})
	}
	image, err := mutate.Append(image, additions...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: Epoch}
	config.OS, config.Architecture = "linux", i.Arch
	config.Config = v1.Config{
		Env: append([]string{searchPath}, i.Env...), Entrypoint: i.Entrypoint, Cmd: i.Cmd, User: i.User, WorkingDir: "/",
		StopSignal: i.StopSignal,
		Labels: map[string]string{
			"org.opencontainers.image.title":   i.Name,
			"org.opencontainers.image.version": i.Version,
		},
	}
	return mutate.ConfigFile(image, config)
}

// ReadLayers finds the layers of an image whose blobs are in dir, so that another image can be built upon it.
func ReadLayers(dir string, image release.Artifact) ([]*Layer, error) {
	var manifest v1.Manifest
	if err := readJSON(BlobPath(dir, image.SHA256), &manifest); err != nil {
		return nil, fmt.Errorf("read image %s: %w", image.Name, err)
	}
	var config v1.ConfigFile
	if err := readJSON(BlobPath(dir, manifest.Config.Digest.Hex), &config); err != nil {
		return nil, fmt.Errorf("read image %s: %w", image.Name, err)
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return nil, fmt.Errorf("read image %s: it has %d layers and %d names for them", image.Name, len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	layers := make([]*Layer, 0, len(manifest.Layers))
	for i, layer := range manifest.Layers {
		layers = append(layers, &Layer{SHA256: layer.Digest.Hex, Bytes: layer.Size, Diff: config.RootFS.DiffIDs[i].Hex, dir: dir})
	}
	return layers, nil
}

func readJSON(path string, target any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, target)
}
