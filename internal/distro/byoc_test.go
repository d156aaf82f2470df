package distro

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/slim"
)

func TestAProvidersVersionIsThatOfItsChanges(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"## 6.48.0 (Unreleased)\n\nNOTES:\n\n## 6.47.0 (June 1)\n": "6.48.0", "# Changes\n\n## 8.0.0 (August 26, 2026)\n": "8.0.0", "nothing\n": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := changelogVersion(dir)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("changelogVersion of %q = %q, %v", content, got, err)
		}
	}
	if _, err := changelogVersion(t.TempDir()); err == nil {
		t.Error("changelogVersion of nothing: want an error")
	}
}

func TestALockFileNamesOneProvider(t *testing.T) {
	got := string(lockFile("aws", "6.48.0", "h1:abc="))
	for _, want := range []string{`provider "registry.opentofu.org/hashicorp/aws" {`, `version = "6.48.0"`, `"h1:abc=",`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestProvidersArePinned(t *testing.T) {
	for _, one := range providers {
		version, err := module.Required(filepath.Join("..", "..", "distro", "byoc", one.name, "go.mod"), one.upstream)
		if err != nil || !strings.HasPrefix(version, "v") {
			t.Errorf("%s: %q, %v", one.name, version, err)
		}
		sums, err := os.ReadFile(filepath.Join("..", "..", "distro", "byoc", one.name, "go.sum"))
		if err != nil || strings.Count(string(sums), one.upstream+" "+version) != 2 {
			t.Errorf("%s: go.sum is %s, %v", one.name, sums, err)
		}
		if len(one.trim) == 0 {
			t.Errorf("%s: nothing is trimmed", one.name)
		}
		if services, ok := one.trim[0].(slim.Services); !ok || !strings.HasPrefix(services.Prefix, one.upstream+"/") {
			t.Errorf("%s: %+v", one.name, one.trim[0])
		}
	}
}

func TestThePlanForCloudsIsOfItsOwn(t *testing.T) {
	p := &planner{runtimeDir: filepath.Join("..", "..", "distro", "byoc"), versions: map[string]string{}}
	if err := p.runtime(tofuModule); err != nil {
		t.Fatal(err)
	}
	if len(p.steps) != 1 || p.steps[0].name != "tofu" || p.versions["tofu"] != "v1.12.6" {
		t.Errorf("%+v", p)
	}
}
