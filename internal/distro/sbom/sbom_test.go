package sbom

import (
	"bytes"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"plasmacloud.io/plasmacloud/internal/distro/debian"
)

// written is a bill of this test's own binary, which is a Go program like any other.
func written(t *testing.T) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Write(&out,
		[]Program{
			{Name: "self", Version: "v1", SHA256: strings.Repeat("a", 64), Path: self},
			{Name: "pause", Version: "v3", SHA256: strings.Repeat("b", 64), Native: true},
		},
		[]Image{{Name: "machine", Version: "v1.36.3", Packages: []debian.Installed{{Name: "libc++1", Version: "1:14.0+b1", Arch: "amd64"}}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTheBillIsWellFormed(t *testing.T) {
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(written(t)), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(bom.SerialNumber) {
		t.Errorf("serial number %q", bom.SerialNumber)
	}
	refs := make(map[string]cdx.Component)
	for _, component := range *bom.Components {
		if _, twice := refs[component.BOMRef]; twice {
			t.Errorf("%s is there twice", component.BOMRef)
		}
		refs[component.BOMRef] = component
	}
	depends := make(map[string][]string)
	for _, dependency := range *bom.Dependencies {
		for _, part := range *dependency.Dependencies {
			if _, ok := refs[part]; !ok {
				t.Errorf("%s depends on %s, which is not listed", dependency.Ref, part)
			}
		}
		depends[dependency.Ref] = *dependency.Dependencies
	}
	if !slices.ContainsFunc(depends["program:self@v1"], func(ref string) bool { return strings.HasPrefix(ref, "pkg:golang/std@1.") }) {
		t.Errorf("no standard library in %v", depends["program:self@v1"])
	}
	if want := []string{"pkg:deb/debian/libc++1@1%3A14.0%2Bb1?arch=amd64"}; !slices.Equal(depends["image:machine@v1.36.3"], want) {
		t.Errorf("the image's packages: %v, want %v", depends["image:machine@v1.36.3"], want)
	}
	if hashes := *refs["program:self@v1"].Hashes; len(hashes) != 1 || hashes[0].Algorithm != cdx.HashAlgoSHA256 {
		t.Errorf("hashes %v", hashes)
	}
}

func TestAReplacedModuleIsListedAsWhatItIs(t *testing.T) {
	b := &bill{components: make(map[string]cdx.Component)}
	got := b.modules(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:a"},
		{Path: "k8s.io/api", Version: "v0.0.0", Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.36.3", Sum: "h1:b"}},
	}})
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.com/a@v1.0.0", "pkg:golang/k8s.io/api@v0.36.3"}
	if !slices.Equal(got, want) {
		t.Errorf("modules = %v, want %v", got, want)
	}
	if properties := b.components[want[2]].Properties; properties == nil || (*properties)[0].Value != "h1:b" {
		t.Errorf("its checksum: %v", properties)
	}
}

func TestTheBillIsTheSameInEveryBuild(t *testing.T) {
	if !bytes.Equal(written(t), written(t)) {
		t.Error("two bills of one content differ")
	}
}

func TestAProgramThatIsNotGoIsAnError(t *testing.T) {
	if err := Write(new(bytes.Buffer), []Program{{Name: "passwd", Path: "/etc/passwd"}}, nil); err == nil {
		t.Error("Write of something that is no Go program: want an error")
	}
}
