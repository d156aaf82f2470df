package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var someSum = strings.Repeat("ab", 32)

// sample is a release with two Kubernetes versions, written to a directory.
func sample(t *testing.T) *Catalogue {
	t.Helper()
	dir := t.TempDir()
	manifest := &Manifest{Schema: Schema}
	for _, version := range []string{"v1.35.4", "v1.36.3", "v1.35.10"} {
		manifest.Artifacts = append(manifest.Artifacts,
			Artifact{Name: "kube", Kind: KindKube, Version: version, Kubernetes: version, Path: "kube/" + version + "/kube", SHA256: someSum},
			Artifact{Name: "pause", Kind: KindImage, Version: "v3", Kubernetes: version, Path: "images/p", SHA256: someSum, Refs: []string{"example.com/pause:" + version}},
			Artifact{Name: "coredns", Kind: KindImage, Version: "v1", Kubernetes: version, Path: "images/c", SHA256: someSum, Refs: []string{"example.com/coredns:" + version}},
			Artifact{Name: "etcd", Kind: KindImage, Version: "v3", Kubernetes: version, Path: "images/e", SHA256: someSum, Refs: []string{"example.com/etcd:" + version}},
			Artifact{Name: "machine", Kind: KindMachine, Version: version, Kubernetes: version, Path: "images/m", SHA256: someSum},
		)
	}
	manifest.Artifacts = append(manifest.Artifacts,
		Artifact{Name: "etcd", Kind: KindBinary, Version: "v3", Path: "bin/etcd", SHA256: someSum},
		Artifact{Name: "runc", Kind: KindBinary, Version: "v1", Path: "bin/runc", SHA256: someSum},
		Artifact{Name: "toolbox", Kind: KindImage, Version: "1", Path: "images/t", SHA256: someSum, Refs: []string{"example.com/toolbox:latest"}},
		Artifact{Name: ImageKonnectivityServer, Kind: KindImage, Version: "v0", Path: "images/ks", SHA256: someSum, Refs: []string{"example.com/proxy-server:v0"}},
		Artifact{Name: ImageKonnectivityAgent, Kind: KindImage, Version: "v0", Path: "images/ka", SHA256: someSum, Refs: []string{"example.com/proxy-agent:v0"}},
	)
	for _, file := range []string{"kube/v1.36.3/kube", "bin/etcd", "bin/k8shost"} {
		write(t, filepath.Join(dir, file), "program")
	}
	if err := manifest.Write(dir); err != nil {
		t.Fatal(err)
	}
	catalogue, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestVersionsAreNewestFirst(t *testing.T) {
	want := []string{"v1.36.3", "v1.35.10", "v1.35.4"}
	if got := sample(t).Versions(); !slices.Equal(got, want) {
		t.Errorf("Versions() = %v, want %v", got, want)
	}
}

func TestResolve(t *testing.T) {
	catalogue := sample(t)
	for want, version := range map[string]string{
		"": "v1.36.3", "v1.36": "v1.36.3", "1.36": "v1.36.3", "1.36.3": "v1.36.3", "v1.36.3": "v1.36.3",
		"v1.35": "v1.35.10", "1.35.4": "v1.35.4",
	} {
		if got, err := catalogue.Resolve(want); err != nil || got != version {
			t.Errorf("Resolve(%q) = %q, %v; want %q", want, got, err, version)
		}
	}
	for _, want := range []string{"v1.34", "v1.36.4", "latest", "v1", "1", "v1.36.3.1", "v2.36", "vv1.36", " v1.36", "v1.36.3-rc.1"} {
		got, err := catalogue.Resolve(want)
		if err == nil {
			t.Errorf("Resolve(%q) = %q, want an error", want, got)
			continue
		}
		if !strings.Contains(err.Error(), "v1.36.3, v1.35.10, v1.35.4") {
			t.Errorf("Resolve(%q): the error does not list what there is: %v", want, err)
		}
	}
}

func TestResolveInAnEmptyRelease(t *testing.T) {
	dir := t.TempDir()
	if err := (&Manifest{Schema: Schema}).Write(dir); err != nil {
		t.Fatal(err)
	}
	catalogue, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Resolve(""); err == nil || !strings.Contains(err.Error(), "make distro") {
		t.Errorf("Resolve of an empty release: %v, want the remedy", err)
	}
}

func TestProgramsAreFound(t *testing.T) {
	catalogue := sample(t)
	if path, err := catalogue.Kube("v1.36.3"); err != nil || path != filepath.Join(catalogue.Dir(), "kube/v1.36.3/kube") {
		t.Errorf("Kube: %q, %v", path, err)
	}
	if path, err := catalogue.Binary("etcd"); err != nil || path != filepath.Join(catalogue.Dir(), "bin/etcd") {
		t.Errorf("Binary(etcd): %q, %v", path, err)
	}
	if path, err := catalogue.Binary("k8shost"); err != nil || path != filepath.Join(catalogue.Dir(), "bin/k8shost") {
		t.Errorf("Binary of the project's own program: %q, %v", path, err)
	}
	if _, err := catalogue.Kube("v1.34.0"); err == nil || !strings.Contains(err.Error(), "v1.36.3") {
		t.Errorf("Kube of an unknown version: %v, want a list", err)
	}
	for _, name := range []string{"runc", "nosuch", "../manifest.json", ""} { // runc is listed, but its file is gone
		if path, err := catalogue.Binary(name); err == nil {
			t.Errorf("Binary(%q) = %q, want an error", name, path)
		}
	}
}

func TestImagesOfAVersion(t *testing.T) {
	catalogue := sample(t)
	if got, want := Refs(catalogue.Images("v1.35.4")...), []string{"example.com/pause:v1.35.4", "example.com/coredns:v1.35.4", "example.com/proxy-agent:v0"}; !slices.Equal(got, want) {
		t.Errorf("Images = %v, want %v", got, want)
	}
	if got := catalogue.ComponentImages("v1.35.4"); len(got) != 3 {
		t.Errorf("ComponentImages = %v, want 3", got)
	}
	if image, err := catalogue.Image("toolbox", "v1.36.3"); err != nil || image.Kubernetes != "" {
		t.Errorf("Image(toolbox) = %v, %v", image, err)
	}
	if image, err := catalogue.Image(ImageMachine, "v1.36.3"); err != nil || image.Kubernetes != "v1.36.3" {
		t.Errorf("Image(machine) = %v, %v", image, err)
	}
	if _, err := catalogue.Image("etcd", "v1.30.0"); err == nil {
		t.Error("Image of an unknown version: want an error")
	}
}

func TestManifestIsRefused(t *testing.T) {
	good := Artifact{Name: "a", Kind: KindBinary, Version: "v1", Path: "bin/a", SHA256: someSum}
	if err := (&Manifest{Schema: Schema, Artifacts: []Artifact{good}}).Validate(); err != nil {
		t.Fatalf("a good manifest: %v", err)
	}
	for reason, change := range map[string]func(*Artifact){
		"outside of the release":      func(a *Artifact) { a.Path = "../../etc/shadow" },
		"outside of the release ":     func(a *Artifact) { a.Path = "/etc/shadow" },
		"not a SHA-256":               func(a *Artifact) { a.SHA256 = "../x" },
		"blob's name is not a SHA":    func(a *Artifact) { a.Blobs = []Blob{{SHA256: "../x"}} },
		"lacks a name":                func(a *Artifact) { a.Name = "" },
		"lacks a name or version":     func(a *Artifact) { a.Version = "" },
		"is not a Kubernetes version": func(a *Artifact) { a.Kubernetes = "newest" },
	} {
		bad := good
		change(&bad)
		err := (&Manifest{Schema: Schema, Artifacts: []Artifact{bad}}).Validate()
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(reason)) {
			t.Errorf("Validate = %v, want %q", err, reason)
		}
	}
	if err := (&Manifest{Schema: Schema + 1}).Validate(); err == nil {
		t.Error("a manifest of another schema: want an error")
	}
}

func TestOpenWithoutARelease(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "make distro") {
		t.Errorf("Open of an empty directory: %v, want the remedy", err)
	}
	write(t, filepath.Join(dir, ManifestName), "{broken")
	if _, err := Open(dir); err == nil {
		t.Error("Open with a broken manifest: want an error")
	}
}

func TestLocate(t *testing.T) {
	with, other, without := sample(t).Dir(), sample(t).Dir(), t.TempDir()
	for name, test := range map[string]struct {
		explicit, env, executable, system string
		want                              string // empty: an error
	}{
		"explicit first":            {explicit: with, env: other, executable: filepath.Join(other, "bin/x"), system: other, want: with},
		"then the environment":      {env: with, executable: filepath.Join(other, "bin/x"), system: other, want: with},
		"then our own release":      {executable: filepath.Join(with, "bin/x"), system: other, want: with},
		"then the installed one":    {executable: filepath.Join(without, "bin/x"), system: with, want: with},
		"no executable known":       {system: with, want: with},
		"a named one must be one":   {explicit: without, env: with, system: with},
		"so must the environment's": {env: without, system: with},
		"nowhere":                   {executable: filepath.Join(without, "bin/x"), system: without},
	} {
		got, err := locate(test.explicit, test.env, test.executable, test.system)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin/good"), "good")
	write(t, filepath.Join(dir, "bin/bad"), "bad")
	manifest := &Manifest{Schema: Schema}
	for _, name := range []string{"good", "bad"} {
		size, sum, err := HashFile(filepath.Join(dir, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		manifest.Artifacts = append(manifest.Artifacts, Artifact{Name: name, Kind: KindBinary, Version: "v1", Path: "bin/" + name, Size: size, SHA256: sum})
	}
	if err := manifest.Write(dir); err != nil {
		t.Fatal(err)
	}
	catalogue, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if count, err := catalogue.Verify(t.Context()); err != nil || count != 2 {
		t.Fatalf("Verify = %d, %v; want 2 intact files", count, err)
	}
	write(t, filepath.Join(dir, "bin/bad"), "BAD")
	if _, err := catalogue.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "bin/bad is damaged") {
		t.Errorf("Verify of a changed file: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "bin/bad")); err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Verify(t.Context()); err == nil {
		t.Error("Verify of a missing file: want an error")
	}
}

func TestOwnImagesAreInTheCatalogue(t *testing.T) {
	dir := sample(t).Dir()
	own := Manifest{Schema: Schema, Artifacts: []Artifact{{
		Name: ImageNode, Kind: KindMachine, Version: "sha256-1", Kubernetes: "v1.36.3", Path: "images/n", SHA256: someSum, Refs: []string{"example.com/node:v1.36.3"},
	}}}
	if err := own.WriteOwn(dir); err != nil {
		t.Fatal(err)
	}
	catalogue, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if image, err := catalogue.Image(ImageNode, "v1.36.3"); err != nil || image.Version != "sha256-1" {
		t.Errorf("Image(node) = %v, %v", image, err)
	}
	if _, err := catalogue.Image(ImageNode, "v1.35.4"); err == nil {
		t.Error("Image of a version that was not packed: want an error")
	}
	write(t, filepath.Join(dir, OwnManifestName), "{}")
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), OwnManifestName) {
		t.Errorf("Open with a broken list: %v", err)
	}
}
