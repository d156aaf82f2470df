package distro

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/distro/tool"
	"plasmacloud.io/plasmacloud/internal/release"
)

// imagesRecord is the file in a step's entry that lists the images in it, as they are in the release manifest.
const imagesRecord = "images.json"

// imageFormat is part of every layer's and image's recipe: it changes when the code that writes them does.
const imageFormat = "2"

// kubePrograms are the names under which the multi-call binary runs.
var kubePrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubeadm", "kubectl"}

// component says how an image that kubeadm asks for is made.
type component struct {
	layers     []string // steps
	program    string   // shared program whose version it carries; empty for Kubernetes itself
	entrypoint []string
	user       string
}

// components are the images of a Kubernetes version, by the last part of their name.
func components(version string) map[string]component {
	kube := func(name string, below ...string) component {
		return component{layers: append(below, kubeLayer(version)), entrypoint: []string{"/usr/local/bin/" + name}}
	}
	return map[string]component{
		"kube-apiserver":          kube("kube-apiserver"),
		"kube-controller-manager": kube("kube-controller-manager"),
		"kube-scheduler":          kube("kube-scheduler"),
		"kube-proxy":              kube("kube-proxy", "layer-proxy-tools"),
		"etcd":                    {layers: []string{"layer-etcd"}, program: "etcd", entrypoint: []string{"/usr/local/bin/etcd"}},
		release.ImageCoreDNS:      {layers: []string{"layer-coredns"}, program: "coredns", entrypoint: []string{"/coredns"}},
		release.ImagePause:        {layers: []string{"layer-pause"}, program: "pause", entrypoint: []string{"/pause"}, user: "65535:65535"},
	}
}

func kubeLayer(version string) string { return "layer-" + kubeStep(version) }

// images plans layers and images. What takes long and needs no compiler comes first, so that it runs beside it.
func (p *planner) images() {
	p.toolbox()
	p.machineRoot()
	p.layer("layer-proxy-tools", "proxy tools", []string{machineRootStep}, proxyTools)
	p.layer("layer-pause", "pause", []string{"pause"}, func(in inputs) ([]oci.Node, error) {
		return []oci.Node{{Path: "pause", Source: in.path("pause", "pause")}}, nil
	})
	p.layer("layer-coredns", "coredns", []string{"coredns"}, func(in inputs) ([]oci.Node, error) {
		return []oci.Node{{Path: "coredns", Source: in.path("coredns", "coredns")}}, nil
	})
	p.layer("layer-etcd", "etcd", []string{"etcd"}, func(in inputs) ([]oci.Node, error) {
		return []oci.Node{
			{Path: "usr/local/bin/etcd", Source: in.path("etcd", "etcd")},
			{Path: "usr/local/bin/etcdutl", Source: in.path("etcd", "etcdutl")},
		}, nil
	})
	p.konnectivity()
	p.machineOverlay()
	for _, minor := range p.minors {
		p.imageList(minor)
		p.componentImages(nodeImagesStep(minor.Version), "node images", minor, release.ImagePause, release.ImageCoreDNS)
		p.layer(kubeLayer(minor.Version), "Kubernetes "+minor.Version, []string{kubeStep(minor.Version)}, func(in inputs) ([]oci.Node, error) {
			return kubeNodes(in.path(kubeStep(minor.Version), "kube")), nil
		})
		p.componentImages("component-images-"+minor.Version, "component images", minor,
			"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd")
		p.machineImage(minor)
		p.nodeBase(minor)
	}
}

func nodeImagesStep(version string) string { return "node-images-" + version }

// kubeNodes is the layer that all of a version's Kubernetes images, and its machine image, have in common.
func kubeNodes(kube string) []oci.Node {
	nodes := []oci.Node{{Path: "usr/local/bin/kube", Source: kube}}
	for _, name := range kubePrograms {
		nodes = append(nodes, oci.Node{Path: "usr/local/bin/" + name, Link: "kube"})
	}
	return nodes
}

// layer plans a layer made of other steps' files. The function is also asked, with no inputs, for the layer's recipe:
// where files go is recipe, where they come from is not.
func (p *planner) layer(name, title string, needs []string, nodes func(inputs) ([]oci.Node, error)) {
	p.add(&step{
		name: name, title: "layer of " + title, lane: lanePack, needs: needs,
		recipe: func(k *cache.Key) {
			k.Add("format", imageFormat)
			planned, err := nodes(nil)
			k.Fail(err)
			for _, node := range planned {
				k.Add("node", node.Path, node.Link, string(node.Data), fmt.Sprint(node.Mode, node.Dir, node.Source != ""))
			}
		},
		build: func(_ context.Context, in inputs, dir string) error {
			content, err := nodes(in)
			if err != nil {
				return err
			}
			_, err = oci.WriteLayer(dir, content)
			return err
		},
	})
}

func listStep(version string) string { return "image-list-" + version }

// imageList plans to ask kubeadm itself which images it wants, under which names.
func (p *planner) imageList(minor module.Minor) {
	kube := kubeStep(minor.Version)
	args := []string{"kubeadm", "config", "images", "list", "--kubernetes-version", minor.Version}
	p.add(&step{
		name: listStep(minor.Version), title: "image names of " + minor.Version, lane: lanePack, needs: []string{kube},
		recipe: func(k *cache.Key) { k.Add("command", args...) },
		build: func(ctx context.Context, in inputs, dir string) error {
			out, err := tool.Run(ctx, tool.Call{Name: in[kube].Path("kube"), Args: args})
			if err != nil {
				return err
			}
			for name, ref := range parseList(out) {
				if _, known := components(minor.Version)[name]; !known {
					return fmt.Errorf("kubeadm %s asks for %s, for which there is no recipe", minor.Version, ref)
				}
			}
			return os.WriteFile(filepath.Join(dir, "images.txt"), out, 0o644) //nolint:gosec // public
		},
	})
}

// readList reads what imageList wrote: image names by the last part of their path.
func readList(e *cache.Entry) (map[string]string, error) {
	data, err := os.ReadFile(e.Path("images.txt"))
	if err != nil {
		return nil, fmt.Errorf("read image names: %w", err)
	}
	return parseList(data), nil
}

func parseList(data []byte) map[string]string {
	refs := make(map[string]string)
	for _, ref := range strings.Fields(string(data)) {
		name, _, _ := strings.Cut(path.Base(ref), ":")
		refs[name] = ref
	}
	return refs
}

// componentImages plans those of a version's images that have one of the given names.
func (p *planner) componentImages(name, title string, minor module.Minor, names ...string) {
	recipes := components(minor.Version)
	needs := []string{listStep(minor.Version)}
	for _, image := range names {
		needs = append(needs, recipes[image].layers...)
	}
	slices.Sort(needs[1:])
	p.add(&step{
		name: name, title: title + " of " + minor.Version, lane: lanePack, needs: slices.Compact(needs),
		recipe: func(k *cache.Key) {
			k.Add("format", imageFormat).Add("images", names...).Add("version", minor.Version)
			for _, image := range names {
				k.Add("image", fmt.Sprint(recipes[image]), p.versions[recipes[image].program])
			}
		},
		build: func(_ context.Context, in inputs, dir string) error {
			refs, err := readList(in[listStep(minor.Version)])
			if err != nil {
				return err
			}
			images := make([]oci.Image, 0, len(names))
			for _, name := range names {
				image, err := p.componentImage(name, refs[name], minor.Version, in)
				if err != nil {
					return err
				}
				images = append(images, image)
			}
			return writeImages(dir, images)
		},
		artifacts: imageArtifacts,
	})
}

func (p *planner) componentImage(name, ref, version string, in inputs) (oci.Image, error) {
	if ref == "" {
		return oci.Image{}, fmt.Errorf("kubeadm %s asks for no image %s", version, name)
	}
	recipe := components(version)[name]
	image := oci.Image{
		Name: name, Kind: release.KindImage, Version: version, Kubernetes: version, Refs: []string{ref},
		Entrypoint: recipe.entrypoint, User: recipe.user, Arch: runtime.GOARCH,
	}
	if recipe.program != "" {
		image.Version = p.versions[recipe.program]
	}
	var err error
	image.Layers, err = readLayers(in, recipe.layers...)
	return image, err
}

func readLayers(in inputs, steps ...string) ([]*oci.Layer, error) {
	var layers []*oci.Layer
	for _, name := range steps {
		layer, err := oci.ReadLayer(in[name].Path("."))
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// writeImages writes images and their record into a step's directory.
func writeImages(dir string, images []oci.Image) error {
	artifacts := make([]release.Artifact, 0, len(images))
	for _, image := range images {
		artifact, err := image.Write(dir)
		if err != nil {
			return err
		}
		artifacts = append(artifacts, artifact)
	}
	data, err := json.MarshalIndent(artifacts, "", "  ")
	if err != nil {
		return fmt.Errorf("record images: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, imagesRecord), data, 0o644) //nolint:gosec // public
}

// imageArtifacts reads the record that writeImages wrote. The files are found by their digests when the release is
// assembled: they are in the entries of the layers too.
func imageArtifacts(e *cache.Entry) ([]placed, error) {
	data, err := os.ReadFile(e.Path(imagesRecord))
	if err != nil {
		return nil, fmt.Errorf("read record of images: %w", err)
	}
	var artifacts []release.Artifact
	if err := json.Unmarshal(data, &artifacts); err != nil {
		return nil, fmt.Errorf("read record of images %s: %w", e.Path(imagesRecord), err)
	}
	all := make([]placed, 0, len(artifacts))
	for _, artifact := range artifacts {
		all = append(all, placed{Artifact: artifact, source: e.Path(filepath.Join("blobs", "sha256", artifact.SHA256))})
	}
	return all, nil
}
