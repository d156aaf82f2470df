package distro

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/machine"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

// nodeBaseRepository is the name of the node image without our own programs; its tag is the Kubernetes version.
const nodeBaseRepository = "plasmacloud.io/node-base"

// nodePrograms are the programs that a node runs, by the step that makes them.
var nodePrograms = map[string][]string{
	"containerd": {"containerd", "containerd-shim-runc-v2", "ctr"}, "runc": {"runc"}, "cni": {"loopback"},
}

// nodeBase plans the node image of one Kubernetes version without our own programs, which `distro node` adds. Its lowest
// layer is the one that the control plane's images consist of: the runtime unpacks it once for all of them, and they
// share the pages of the program that it holds.
func (p *planner) nodeBase(minor module.Minor) {
	kube, images := kubeStep(minor.Version), nodeImagesStep(minor.Version)
	layers := []string{kubeLayer(minor.Version), machineRootStep, machineOverlayStep}
	contents := []string{"layer-pause", "layer-coredns", konnectivityLayer(konnectivityPrograms[release.ImageKonnectivityAgent])}
	needs := slices.Concat(layers, contents, []string{kube, images, konnectivityStep, "containerd", "runc", "cni"})
	p.add(&step{
		name: "node-base-" + minor.Version, title: "node image of " + minor.Version, lane: lanePack, needs: needs,
		recipe: func(k *cache.Key) {
			k.Add("format", imageFormat).Add("version", minor.Version).Add("manifest", fmt.Sprint(release.Schema))
			nodes, err := machine.Node(nil)
			k.Fail(err)
			for _, node := range nodes {
				k.Add("node", node.Path, node.Link, string(node.Data), fmt.Sprint(node.Mode, node.Dir))
			}
			k.Add("command", machine.NodeCommand...)
		},
		build: func(_ context.Context, in inputs, dir string) error {
			nodes, err := p.nodeRelease(minor.Version, in, contents)
			if err != nil {
				return err
			}
			settings, err := oci.WriteLayer(dir, nodes)
			if err != nil {
				return err
			}
			below, err := readLayers(in, layers...)
			if err != nil {
				return err
			}
			return writeImages(dir, []oci.Image{{
				Name: release.ImageNodeBase, Kind: release.KindMachine, Version: minor.Version, Kubernetes: minor.Version,
				Refs: []string{nodeBaseRepository + ":" + minor.Version}, Layers: append(below, settings),
				Cmd: machine.NodeCommand, Env: machineEnvironment, StopSignal: machineStopSignal, Arch: runtime.GOARCH,
			}})
		},
		artifacts: imageArtifacts,
	})
}

// nodeRelease is the part of a release that a node needs, as a layer of files: programs that are in the image already
// are links, and the images that a node brings along are there as they are in the release itself.
func (p *planner) nodeRelease(version string, in inputs, contents []string) ([]oci.Node, error) {
	kube, err := place(in[kubeStep(version)], "kube", release.Artifact{
		Name: "kube", Kind: release.KindKube, Version: version, Kubernetes: version, Path: filepath.Join("kube", version, "kube"),
	})
	if err != nil {
		return nil, err
	}
	links := map[string]string{kube[0].Path: "/usr/local/bin/kube"}
	manifest := release.Manifest{Schema: release.Schema, Artifacts: []release.Artifact{kube[0].Artifact}}
	for _, step := range []string{"containerd", "runc", "cni"} {
		placed, err := binaryArtifacts(p.versions[step], nodePrograms[step]...)(in[step])
		if err != nil {
			return nil, err
		}
		for _, one := range placed {
			manifest.Artifacts = append(manifest.Artifacts, one.Artifact)
			links[one.Path] = "/" + machine.ProgramPath(one.Name)
		}
	}
	blobs, err := p.nodeImages(version, in, contents, &manifest)
	if err != nil {
		return nil, err
	}
	if err := manifest.Validate(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	content := []oci.Node{{Path: release.ManifestName, Mode: 0o644, Data: data}}
	for path, target := range links {
		content = append(content, oci.Node{Path: path, Link: target})
	}
	for path, source := range blobs {
		content = append(content, oci.Node{Path: path, Mode: 0o644, Source: source})
	}
	return machine.Node(content)
}

// nodeImages adds the images that a node brings along to its manifest, and finds their files.
func (p *planner) nodeImages(version string, in inputs, contents []string, manifest *release.Manifest) (map[string]string, error) {
	sources := make(map[string]string)
	for _, name := range contents {
		layer, err := oci.ReadLayer(in[name].Path("."))
		if err != nil {
			return nil, err
		}
		sources[layer.SHA256] = oci.BlobPath(in[name].Path("."), layer.SHA256)
	}
	files := make(map[string]string)
	for _, step := range []string{nodeImagesStep(version), konnectivityStep} {
		placed, err := imageArtifacts(in[step])
		if err != nil {
			return nil, err
		}
		for _, image := range placed {
			if image.Name == release.ImageKonnectivityServer {
				continue
			}
			manifest.Artifacts = append(manifest.Artifacts, image.Artifact)
			files[image.Path] = image.source
			for _, blob := range image.Blobs {
				source := sources[blob.SHA256]
				if source == "" { // the image's configuration, which lies beside its manifest
					source = oci.BlobPath(in[step].Path("."), blob.SHA256)
				}
				files[blob.Path()] = source
			}
		}
	}
	return files, nil
}
