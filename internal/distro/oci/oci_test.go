package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"plasmacloud.io/plasmacloud/internal/release"
)

func layer(t *testing.T, nodes ...Node) *Layer {
	t.Helper()
	dir := t.TempDir()
	if _, err := WriteLayer(dir, nodes); err != nil {
		t.Fatal(err)
	}
	read, err := ReadLayer(dir)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func headers(t *testing.T, l *Layer) map[string]*tar.Header {
	t.Helper()
	content, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	all := make(map[string]*tar.Header)
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[header.Name] = header
	}
}

func TestALayerHoldsWhatItWasGiven(t *testing.T) {
	source := filepath.Join(t.TempDir(), "kube")
	if err := os.WriteFile(source, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := headers(t, layer(t,
		Node{Path: "usr/local/bin/kubelet", Link: "kube"},
		Node{Path: "usr/local/bin/kube", Source: source},
		Node{Path: "etc/config", Mode: 0o644, Data: []byte("setting")},
		Node{Path: "tmp", Mode: 0o1777, Dir: true},
	))
	for name, check := range map[string]func(*tar.Header) bool{
		"usr/":                  func(h *tar.Header) bool { return h.Typeflag == tar.TypeDir && h.Mode == 0o755 },
		"usr/local/bin/":        func(h *tar.Header) bool { return h.Typeflag == tar.TypeDir },
		"usr/local/bin/kube":    func(h *tar.Header) bool { return h.Size == 7 && h.Mode == 0o755 },
		"usr/local/bin/kubelet": func(h *tar.Header) bool { return h.Typeflag == tar.TypeSymlink && h.Linkname == "kube" },
		"etc/config":            func(h *tar.Header) bool { return h.Size == 7 && h.Mode == 0o644 },
		"tmp/":                  func(h *tar.Header) bool { return h.Typeflag == tar.TypeDir && h.Mode == 0o1777 },
	} {
		if header := got[name]; header == nil || !check(header) || !header.ModTime.Equal(Epoch) || header.Uid != 0 {
			t.Errorf("%s: %+v", name, header)
		}
	}
}

func TestLayersAreTheSameInEveryBuild(t *testing.T) {
	data := bytes.Repeat([]byte("some content that compresses "), 10000)
	one := layer(t, Node{Path: "a", Data: data}, Node{Path: "b/c", Link: "../a"})
	two := layer(t, Node{Path: "b/c", Link: "../a"}, Node{Path: "a", Data: data})
	if one.SHA256 != two.SHA256 {
		t.Errorf("two digests of one content: %s and %s", one.SHA256, two.SHA256)
	}
	if one.Bytes > int64(len(data))/10 {
		t.Errorf("%d bytes for %d: not compressed", one.Bytes, len(data))
	}
}

func TestAFailedLayerIsAnError(t *testing.T) {
	if _, err := WriteLayer(t.TempDir(), []Node{{Path: "a", Source: "/no/such/file"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("WriteLayer without its source = %v", err)
	}
}

// releaseOf makes a release directory of images, as the builder does.
func releaseOf(t *testing.T, images ...Image) *release.Catalogue {
	t.Helper()
	dir := t.TempDir()
	blobs := filepath.Join(dir, release.ImagesDir)
	manifest := &release.Manifest{Schema: release.Schema}
	for _, image := range images {
		artifact, err := image.Write(blobs)
		if err != nil {
			t.Fatal(err)
		}
		manifest.Artifacts = append(manifest.Artifacts, artifact)
		for _, l := range image.Layers {
			data, err := os.ReadFile(BlobPath(l.dir, l.SHA256))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(BlobPath(blobs, l.SHA256), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(manifest.Write(dir), release.WriteLayout(blobs, manifest.Artifacts)); err != nil {
		t.Fatal(err)
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// unpack writes an exported archive to a directory and reads it as others do. The number of files is returned too.
func unpack(t *testing.T, archive io.Reader) (layout.Path, int) {
	t.Helper()
	dir, count := t.TempDir(), 0
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		count++
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	read, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return read, count
}

func TestImagesShareLayersAndKeepTheirNames(t *testing.T) {
	shared := layer(t, Node{Path: "usr/local/bin/kube", Data: []byte("kube")})
	tools := layer(t, Node{Path: "usr/sbin/nft", Data: []byte("nft")})
	catalogue := releaseOf(t,
		Image{Name: "api", Kind: release.KindImage, Version: "v1.2.3", Kubernetes: "v1.2.3", Refs: []string{"example.com/api:v1"}, Layers: []*Layer{shared}, Entrypoint: []string{"/api"}, Arch: "amd64"},
		Image{Name: "proxy", Kind: release.KindImage, Version: "v1.2.3", Kubernetes: "v1.2.3", Refs: []string{"example.com/proxy:v1"}, Layers: []*Layer{tools, shared}, Cmd: []string{"/proxy"}, User: "1:1", Arch: "amd64"},
		Image{Name: "other", Kind: release.KindImage, Version: "v9", Refs: []string{"example.com/other:v1"}, Layers: []*Layer{tools}, Arch: "amd64"},
	)
	var archive bytes.Buffer
	if err := catalogue.Export(&archive, "example.com/api:v1", "example.com/proxy:v1"); err != nil {
		t.Fatal(err)
	}
	read, files := unpack(t, &archive)
	if want := 2 + 2*2 + 2; files != want { // marker and index, two images' manifest and configuration, two layers
		t.Errorf("%d files in the archive, want %d: a shared layer once, and nothing of the third image", files, want)
	}
	index, err := read.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, descriptor := range manifest.Manifests {
		names = append(names, descriptor.Annotations["io.containerd.image.name"])
		image, err := read.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image, validate.Fast); err != nil {
			t.Errorf("%s: %v", descriptor.Annotations, err)
		}
		checkConfig(t, image)
	}
	if want := []string{"example.com/api:v1", "example.com/proxy:v1"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	if _, err := catalogue.Verify(t.Context()); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || config.Architecture != "amd64" || config.OS != "linux" {
		t.Errorf("configuration: %+v", config)
	}
	if !slices.Contains(config.Config.Env, searchPath) {
		t.Errorf("environment %v has no PATH", config.Config.Env)
	}
	if !config.Created.Equal(Epoch) {
		t.Errorf("created %v: not the same in every build", config.Created)
	}
}

func TestExportOfAnUnknownImage(t *testing.T) {
	catalogue := releaseOf(t, Image{Name: "a", Kind: release.KindImage, Version: "v1", Refs: []string{"example.com/a:v1"}, Arch: "amd64"})
	err := catalogue.Export(io.Discard, "example.com/b:v1")
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("example.com/a:v1")) {
		t.Errorf("Export = %v, want a list of what there is", err)
	}
}
