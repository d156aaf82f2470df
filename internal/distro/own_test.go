package distro

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/machine"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

// baseRelease is a release with the bases of two versions' node images, and our own programs.
func baseRelease(t *testing.T) string {
	t.Helper()
	output := t.TempDir()
	images := filepath.Join(output, release.ImagesDir)
	manifest := release.Manifest{Schema: release.Schema}
	for _, version := range []string{"v1.36.3", "v1.35.4"} {
		layer, err := oci.WriteLayer(images, []oci.Node{{Path: "etc/version", Mode: 0o644, Data: []byte(version)}})
		if err != nil {
			t.Fatal(err)
		}
		image, err := oci.Image{
			Name: release.ImageNodeBase, Kind: release.KindMachine, Version: version, Kubernetes: version,
			Refs: []string{nodeBaseRepository + ":" + version}, Layers: []*oci.Layer{layer}, Arch: "amd64",
		}.Write(images)
		if err != nil {
			t.Fatal(err)
		}
		manifest.Artifacts = append(manifest.Artifacts, image)
	}
	if err := os.Remove(filepath.Join(images, "layer.json")); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Write(output); err != nil {
		t.Fatal(err)
	}
	program(t, output, "k8shost", "first")
	program(t, output, "prismnet", "first")
	return output
}

func program(t *testing.T, output, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(output, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(output, "bin", name), []byte(name+", the "+content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, output string, want bool) *release.Catalogue {
	t.Helper()
	changed, err := PackNode(t.Context(), output)
	if err != nil || changed != want {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	catalogue, err := release.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return catalogue
}

func TestNodeImageHasOurPrograms(t *testing.T) {
	output := baseRelease(t)
	catalogue := pack(t, output, true)
	for _, version := range []string{"v1.36.3", "v1.35.4"} {
		image, err := catalogue.Image(release.ImageNode, version)
		if err != nil || image.Refs[0] != "plasmacloud.io/node:"+version {
			t.Fatalf("%+v, error %v", image, err)
		}
		layers, err := oci.ReadLayers(filepath.Join(output, release.ImagesDir), image)
		if err != nil || len(layers) != 2 {
			t.Fatalf("%d layers, error %v", len(layers), err)
		}
		if base := filesOf(t, layers[0])["etc/version"]; base != version {
			t.Errorf("over the base of %s", base)
		}
		own := filesOf(t, layers[1])
		if own["usr/local/lib/plasmacloud/release/bin/k8shost"] != "k8shost, the first" || own["usr/local/lib/plasmacloud/release/bin/prismnet"] != "prismnet, the first" {
			t.Errorf("ours are %v", own)
		}
		var archive bytes.Buffer
		if err := catalogue.Export(&archive, image.Refs...); err != nil {
			t.Error(err)
		}
	}
}

func filesOf(t *testing.T, layer *oci.Layer) map[string]string {
	t.Helper()
	reader, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	files := map[string]string{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

func TestNodeImageIsPackedOnlyWhenSomethingChanged(t *testing.T) {
	output := baseRelease(t)
	pack(t, output, true)
	blobs := func() int {
		entries, err := os.ReadDir(filepath.Join(output, release.ImagesDir, "blobs", "sha256"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := blobs()
	pack(t, output, false)
	program(t, output, "prismnet", "second")
	pack(t, output, true)
	pack(t, output, false)
	if after := blobs(); after != before {
		t.Errorf("there were %d blobs and are %d", before, after)
	}
	own, err := release.ReadOwnManifest(output)
	if err != nil {
		t.Fatal(err)
	}
	last := own.Artifacts[0].Blobs[len(own.Artifacts[0].Blobs)-1]
	if err := os.Remove(filepath.Join(output, last.Path())); err != nil {
		t.Fatal(err)
	}
	pack(t, output, true)
	if err := os.WriteFile(filepath.Join(output, release.OwnManifestName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	pack(t, output, true)
}

func TestNodeImageNeedsItsParts(t *testing.T) {
	output := baseRelease(t)
	if err := os.Remove(filepath.Join(output, "bin", "prismnet")); err != nil {
		t.Fatal(err)
	}
	if _, err := PackNode(t.Context(), output); err == nil || !strings.Contains(err.Error(), "prismnet") {
		t.Errorf("error %v", err)
	}
	program(t, output, "prismnet", "first")
	if err := (&release.Manifest{Schema: release.Schema}).Write(output); err != nil {
		t.Fatal(err)
	}
	if _, err := PackNode(t.Context(), output); err == nil || !strings.Contains(err.Error(), "make distro") {
		t.Errorf("error %v", err)
	}
}

// A node's part of the release is one that the release's own reader accepts, once it is unpacked over what it links to.
func TestNodesCarryAReleaseThatCanBeRead(t *testing.T) {
	p, in := nodeFixture(t)
	nodes, err := p.nodeRelease("v1.36.3", in, []string{"layer-pause", "layer-coredns", "layer-proxy-agent"})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	const prefix = "usr/local/lib/plasmacloud/release/"
	for _, node := range nodes {
		name, ours := strings.CutPrefix(node.Path, prefix)
		if !ours {
			continue
		}
		data := node.Data
		if node.Source != "" {
			if data, err = os.ReadFile(node.Source); err != nil {
				t.Fatal(err)
			}
		}
		if node.Link != "" {
			if data, err = os.ReadFile(builtFile(in, filepath.Base(node.Link))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), data, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	catalogue, err := release.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback"} {
		if _, err := catalogue.Binary(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := catalogue.Kube("v1.36.3"); err != nil {
		t.Error(err)
	}
	var names []string
	for _, image := range catalogue.Images("v1.36.3") {
		names = append(names, image.Name)
	}
	if strings.Join(names, " ") != "pause coredns konnectivity-agent" {
		t.Errorf("it brings along %v", names)
	}
	if err := catalogue.Export(io.Discard, release.Refs(catalogue.Images("v1.36.3")...)...); err != nil {
		t.Error(err)
	}
	if machine.NodeCommand[0] != "/"+prefix+"bin/k8shost" {
		t.Errorf("it boots with %v", machine.NodeCommand)
	}
}

// nodeFixture has everything that a node image is made of, in small.
func nodeFixture(t *testing.T) (*planner, inputs) {
	t.Helper()
	store, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &planner{versions: map[string]string{"containerd": "v2", "runc": "v1", "cni": "v1", "konnectivity": "v0.36.0", "pause": "v3", "coredns": "v1"}}
	in := inputs{}
	add := func(name string, build func(dir string) error) {
		t.Helper()
		entry, _, err := store.Build(t.Context(), name, strings.Repeat("0", 64), func(_ context.Context, dir string) error { return build(dir) })
		if err != nil {
			t.Fatal(err)
		}
		in[name] = entry
	}
	for step, programs := range map[string][]string{
		"kube-v1.36.3": {"kube"}, "containerd": nodePrograms["containerd"], "runc": nodePrograms["runc"], "cni": nodePrograms["cni"],
	} {
		add(step, func(dir string) error {
			var problems []error
			for _, name := range programs {
				problems = append(problems, os.WriteFile(filepath.Join(dir, name), []byte("program "+name), 0o755))
			}
			return errors.Join(problems...)
		})
	}
	for _, name := range []string{"layer-pause", "layer-coredns", "layer-proxy-agent", "layer-proxy-server"} {
		add(name, func(dir string) error {
			_, err := oci.WriteLayer(dir, []oci.Node{{Path: name, Data: []byte(name)}})
			return err
		})
	}
	image := func(name, kubernetes, layer string) oci.Image {
		layers, err := readLayers(in, layer)
		if err != nil {
			t.Fatal(err)
		}
		return oci.Image{Name: name, Kind: release.KindImage, Version: "v1", Kubernetes: kubernetes, Refs: []string{"example.com/" + name + ":v1"}, Layers: layers, Arch: "amd64"}
	}
	add(nodeImagesStep("v1.36.3"), func(dir string) error {
		return writeImages(dir, []oci.Image{image(release.ImagePause, "v1.36.3", "layer-pause"), image(release.ImageCoreDNS, "v1.36.3", "layer-coredns")})
	})
	add(konnectivityStep, func(dir string) error {
		return writeImages(dir, []oci.Image{image(release.ImageKonnectivityServer, "", "layer-proxy-server"), image(release.ImageKonnectivityAgent, "", "layer-proxy-agent")})
	})
	return p, in
}

// builtFile finds a program among the steps' files.
func builtFile(in inputs, name string) string {
	for _, entry := range in {
		if _, ok := entry.File(name); ok {
			return entry.Path(name)
		}
	}
	return name
}
