package distro

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/machine"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

// nodeRepository is the node image's name; its tag is the Kubernetes version.
const nodeRepository = "plasmacloud.io/node"

// PackNode writes the node image of every Kubernetes version in a release: the one that the distribution has built, and
// over it our own programs, which are in the release already. It tells whether there was anything to do.
func PackNode(ctx context.Context, output string) (bool, error) {
	lock, err := cache.Acquire(ctx, filepath.Join(output, ".lock"))
	if err != nil {
		return false, fmt.Errorf("pack node image: %w", err)
	}
	defer lock.Release()
	manifest, err := release.ReadManifest(output)
	if err != nil {
		return false, err
	}
	bases := slices.DeleteFunc(slices.Clone(manifest.Artifacts), func(a release.Artifact) bool { return a.Name != release.ImageNodeBase })
	if len(bases) == 0 {
		return false, errors.New("pack node image: the release has none to build upon: bring it up to date with `make distro`")
	}
	programs := machine.Own(func(name string) string { return filepath.Join(output, "bin", name) })
	version, err := contentOf(programs)
	if err != nil {
		return false, fmt.Errorf("pack node image: %w", err)
	}
	images := filepath.Join(output, release.ImagesDir)
	own, err := release.ReadOwnManifest(output)
	if err != nil {
		own = &release.Manifest{} // unreadable, so it is made anew
	}
	if upToDate(images, bases, own.Artifacts, version) {
		return false, nil
	}
	fresh, err := packNode(images, bases, programs, version)
	if err != nil {
		return false, err
	}
	if err := (&release.Manifest{Schema: release.Schema, Artifacts: fresh}).WriteOwn(output); err != nil {
		return false, err
	}
	return true, removeBlobs(images, own.Artifacts, slices.Concat(fresh, manifest.Artifacts))
}

// contentOf names the content of files.
func contentOf(nodes []oci.Node) (string, error) {
	hash := sha256.New()
	for _, node := range nodes {
		_, sum, err := release.HashFile(node.Source)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, node.Path, sum)
	}
	return "sha256-" + hex.EncodeToString(hash.Sum(nil)), nil
}

// upToDate tells whether the images that were packed last are of these bases and programs, and are all there.
func upToDate(images string, bases, packed []release.Artifact, version string) bool {
	if len(packed) != len(bases) {
		return false
	}
	for i, image := range packed {
		below, err := oci.ReadLayers(images, bases[i])
		if err != nil || image.Kubernetes != bases[i].Kubernetes || image.Version != version {
			return false
		}
		layers, err := oci.ReadLayers(images, image)
		if err != nil || len(layers) != len(below)+1 {
			return false
		}
		for i, layer := range layers {
			if i < len(below) && layer.SHA256 != below[i].SHA256 {
				return false
			}
			if info, err := os.Stat(oci.BlobPath(images, layer.SHA256)); err != nil || info.Size() != layer.Bytes {
				return false
			}
		}
	}
	return true
}

func packNode(images string, bases []release.Artifact, programs []oci.Node, version string) (packed []release.Artifact, err error) {
	scratch, err := os.MkdirTemp(images, ".own-")
	if err != nil {
		return nil, fmt.Errorf("pack node image: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	top, err := oci.WriteLayer(scratch, programs)
	if err != nil {
		return nil, fmt.Errorf("pack node image: %w", err)
	}
	for _, base := range bases {
		below, err := oci.ReadLayers(images, base)
		if err != nil {
			return nil, err
		}
		image, err := oci.Image{
			Name: release.ImageNode, Kind: release.KindMachine, Version: version, Kubernetes: base.Kubernetes,
			Refs: []string{nodeRepository + ":" + base.Kubernetes}, Layers: append(below, top),
			Cmd: machine.NodeCommand, Env: machineEnvironment, StopSignal: machineStopSignal, Arch: runtime.GOARCH,
		}.Write(scratch)
		if err != nil {
			return nil, err
		}
		packed = append(packed, image)
	}
	written, err := filepath.Glob(oci.BlobPath(scratch, "*"))
	if err != nil {
		return nil, fmt.Errorf("pack node image: %w", err)
	}
	for _, blob := range written {
		if err := os.Rename(blob, oci.BlobPath(images, filepath.Base(blob))); err != nil {
			return nil, fmt.Errorf("pack node image: %w", err)
		}
	}
	return packed, nil
}

// removeBlobs removes what only the images need that were packed before.
func removeBlobs(images string, old, used []release.Artifact) error {
	keep := make(map[string]bool)
	for _, sum := range blobsOf(used) {
		keep[sum] = true
	}
	for _, sum := range blobsOf(old) {
		if keep[sum] {
			continue
		}
		if err := os.Remove(oci.BlobPath(images, sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what was packed before: %w", err)
		}
	}
	return nil
}

func blobsOf(artifacts []release.Artifact) []string {
	var sums []string
	for _, a := range artifacts {
		if !a.IsImage() {
			continue
		}
		sums = append(sums, a.SHA256)
		for _, blob := range a.Blobs {
			sums = append(sums, blob.SHA256)
		}
	}
	return sums
}
