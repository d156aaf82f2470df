package distro

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/compile"
	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/distro/progress"
	"plasmacloud.io/plasmacloud/internal/release"
)

// factory makes small builds of which a test can change the recipes.
type factory struct {
	t       *testing.T
	cache   string
	output  string
	content map[string]string // of the steps without needs
	runs    map[string]*atomic.Int32
}

func newFactory(t *testing.T) *factory {
	return &factory{
		t: t, cache: t.TempDir(), output: filepath.Join(t.TempDir(), "release"),
		content: map[string]string{"a": "content of a", "b": "content of b"},
		runs:    map[string]*atomic.Int32{"a": {}, "b": {}, "sum": {}, "image": {}},
	}
}

// leaf is a step that writes a file, "pause", so that the bill of materials does not look for Go in it.
func (f *factory) leaf(name string, in lane) *step {
	content := f.content[name]
	return &step{
		name: name, title: name, lane: in,
		recipe: func(k *cache.Key) { k.Add("content", content) },
		build: func(_ context.Context, _ inputs, dir string) error {
			f.runs[name].Add(1)
			return os.WriteFile(filepath.Join(dir, "out"), []byte(strings.TrimSpace(content)), 0o755)
		},
		artifacts: func(e *cache.Entry) ([]placed, error) {
			return place(e, "out", release.Artifact{Name: "pause", Kind: release.KindBinary, Version: name, Path: "bin/" + name})
		},
	}
}

// steps are two leaves, one that needs both, and an image of it.
func (f *factory) steps() []*step {
	sum := &step{
		name: "sum", title: "sum", lane: lanePack, needs: []string{"a", "b"}, recipe: func(*cache.Key) {},
		build: func(_ context.Context, in inputs, dir string) error {
			f.runs["sum"].Add(1)
			_, err := oci.WriteLayer(dir, []oci.Node{{Path: "a", Source: in.path("a", "out")}, {Path: "b", Source: in.path("b", "out")}})
			return err
		},
	}
	image := &step{
		name: "image", title: "image", lane: lanePack, needs: []string{"sum"}, recipe: func(*cache.Key) {},
		build: func(_ context.Context, in inputs, dir string) error {
			f.runs["image"].Add(1)
			layers, err := readLayers(in, "sum")
			if err != nil {
				return err
			}
			return writeImages(dir, []oci.Image{{Name: "sum", Kind: release.KindImage, Version: "v1", Refs: []string{"example.com/sum:v1"}, Layers: layers, Arch: "amd64"}})
		},
		artifacts: imageArtifacts,
	}
	return []*step{f.leaf("a", laneCompile), f.leaf("b", lanePack), sum, image}
}

// build runs the steps and assembles the release, as Build does.
func (f *factory) build(steps []*step, only ...string) (built int, changed bool, err error) {
	f.t.Helper()
	store, err := cache.Open(f.cache)
	if err != nil {
		f.t.Fatal(err)
	}
	chosen, err := choose(steps, only)
	if err != nil {
		f.t.Fatal(err)
	}
	r := &runner{store: store, reporter: progress.New(new(bytes.Buffer), len(chosen))}
	if built, err = r.run(f.t.Context(), chosen); err != nil {
		return built, false, err
	}
	changed, err = assemble(f.t.Context(), f.output, steps, r)
	return built, changed, err
}

func (f *factory) mustBuild(wantBuilt int, wantChanged bool) {
	f.t.Helper()
	built, changed, err := f.build(f.steps())
	if err != nil || built != wantBuilt || changed != wantChanged {
		f.t.Fatalf("built %d, changed %v, %v; want %d and %v", built, changed, err, wantBuilt, wantChanged)
	}
}

func (f *factory) verify() *release.Catalogue {
	f.t.Helper()
	catalogue, err := release.Open(f.output)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := catalogue.Verify(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return catalogue
}

func TestASecondBuildDoesNothing(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	f.verify()
	before, err := os.Stat(filepath.Join(f.output, release.ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	f.mustBuild(0, false)
	after, err := os.Stat(filepath.Join(f.output, release.ManifestName))
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the manifest was written again: %v", err)
	}
}

func TestAFreshCloneOnAWarmMachineBuildsNothing(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	f.output = filepath.Join(t.TempDir(), "elsewhere")
	f.mustBuild(0, true)
	f.verify()
}

func TestOnlyWhatChangedIsBuiltAgain(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	f.content["a"] = "another content"
	f.mustBuild(3, true)
	if f.runs["b"].Load() != 1 {
		t.Error("a step that did not change was built again")
	}
	f.content["a"] += " " // another recipe, the same file comes out
	f.mustBuild(1, true)  // a new file in the release, but nothing that was made from it
	f.verify()
}

func TestDamageInTheReleaseIsMended(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	if err := os.Remove(filepath.Join(f.output, "bin", "a")); err != nil {
		t.Fatal(err)
	}
	f.mustBuild(0, true) // the cache has it
	if err := os.WriteFile(filepath.Join(f.output, "bin", "b"), []byte("damaged"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.mustBuild(1, true) // a hard link: the cache's copy is damaged too
	f.verify()
}

func TestWhatIsNoLongerBuiltLeavesTheRelease(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	own := filepath.Join(f.output, "bin", "k8shost")
	if err := os.WriteFile(own, []byte("our own"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, changed, err := f.build(f.steps()[:1]); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	f.verify()
	for path, stays := range map[string]bool{"bin/a": true, "bin/b": false, "bin/k8shost": true, "images/blobs/sha256": false} {
		if _, err := os.Stat(filepath.Join(f.output, path)); (err == nil) != stays {
			t.Errorf("%s: %v, want it there: %v", path, err, stays)
		}
	}
}

func TestAPartOfTheBuild(t *testing.T) {
	f := newFactory(t)
	built, _, err := f.build(f.steps(), "a")
	if err != nil || built != 1 {
		t.Fatalf("built %d, %v; want one step", built, err)
	}
	if artifacts := f.verify().Artifacts(); len(artifacts) != 2 { // and the bill of materials
		t.Errorf("artifacts %v", artifacts)
	}
	if built, _, err := f.build(f.steps(), "image"); err != nil || built != 3 {
		t.Errorf("built %d, %v; want the image and what it needs", built, err)
	}
	if _, err := choose(f.steps(), []string{"nosuch"}); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("choose of an unknown step: %v", err)
	}
}

func TestAFailedStepStopsTheBuildAndKeepsTheRelease(t *testing.T) {
	f := newFactory(t)
	f.mustBuild(4, true)
	f.content["b"] = "new"
	steps := f.steps()
	failure := errors.New("no space left")
	steps[1].build = func(context.Context, inputs, string) error { return failure }
	if _, _, err := f.build(steps); !errors.Is(err, failure) || !strings.Contains(err.Error(), "build b") {
		t.Fatalf("build = %v", err)
	}
	f.verify()
}

func TestAReleaseOnAnotherFileSystem(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "release-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := newFactory(t)
	f.output = dir
	f.mustBuild(4, true)
	f.mustBuild(0, false)
	f.verify()
}

// realPlan plans the repository's own distro folder, which runs nothing but `go env` and look-ups in the module cache.
func realPlan(t *testing.T) (*planner, []module.Minor) {
	t.Helper()
	minors, err := module.Scan(filepath.Join("..", "..", "distro"))
	if err != nil {
		t.Fatal(err)
	}
	p := &planner{
		runtimeDir: filepath.Join("..", "..", "distro", "runtime"), minors: minors, versions: make(map[string]string),
		toolchain: compile.Toolchain{Go: "go"}, host: debian.Host{Suite: "stable", Arch: "amd64"},
	}
	for _, m := range runtimeModules {
		if err := p.runtime(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, minor := range minors {
		p.add(&step{name: kubeStep(minor.Version)})
	}
	p.add(&step{name: "pause"})
	p.images()
	return p, minors
}

func TestEveryStepComesAfterWhatItNeeds(t *testing.T) {
	p, minors := realPlan(t)
	var names []string
	for _, s := range p.steps {
		if slices.Contains(names, s.name) {
			t.Errorf("two steps %s", s.name)
		}
		for _, need := range s.needs {
			if !slices.Contains(names, need) {
				t.Errorf("%s needs %s, which does not come before it", s.name, need)
			}
		}
		names = append(names, s.name)
	}
	for _, minor := range minors {
		for _, name := range []string{"node-images-", "component-images-", "machine-image-"} {
			if !slices.Contains(names, name+minor.Version) {
				t.Errorf("no step %s%s", name, minor.Version)
			}
		}
	}
}

func TestRecipesAreComplete(t *testing.T) {
	p, _ := realPlan(t)
	keys := make(map[string]string)
	for _, s := range p.steps {
		if s.recipe == nil {
			continue
		}
		k := cache.NewKey().Add("step", s.name)
		s.recipe(k)
		sum, err := k.Sum()
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		again := cache.NewKey().Add("step", s.name)
		s.recipe(again)
		if second, _ := again.Sum(); second != sum {
			t.Errorf("%s: its recipe is not the same twice", s.name)
		}
		keys[sum] = s.name
	}
}

func TestEveryImageThatKubeadmNamesHasARecipe(t *testing.T) {
	dir := t.TempDir()
	list := "example.com/kube-apiserver:v1.36.3\nexample.com/coredns/coredns:v1.14.2\nexample.com:5000/pause:3.10\nexample.com/etcd:3.6.8-0\n"
	store, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	entry, _, err := store.Build(t.Context(), "list", "key", func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "images.txt"), []byte(list), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	refs, err := readList(entry)
	if err != nil {
		t.Fatal(err)
	}
	recipes := components("v1.36.3")
	for name, want := range map[string]string{
		"kube-apiserver": "example.com/kube-apiserver:v1.36.3", "coredns": "example.com/coredns/coredns:v1.14.2",
		"pause": "example.com:5000/pause:3.10", "etcd": "example.com/etcd:3.6.8-0",
	} {
		if refs[name] != want || len(recipes[name].layers) == 0 {
			t.Errorf("%s: %q with layers %v", name, refs[name], recipes[name].layers)
		}
	}
}
