package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rules are all rules by name, each with trees that break it: a map of files, and
// what the report says.
var rules = map[string]struct {
	check    func(*tree) []string
	examples []example
}{
	"package docs": {packageDocs, []example{
		{files{"a/a.go": "package a\n"}, "a: package a has no package comment"},
		{files{"a/a.go": "// Helps.\npackage a\n"}, "does not begin with"},
		{files{"a/a.go": "// Package a does a.\npackage a\n"}, "says nothing"},
		{files{"a/a_test.go": "package a_test\n"}, "a: package a has no package comment"},
		{files{"cmd/x/main.go": "package main\n"}, "package main has no package comment"},
		{files{
			"a/a.go": "// Package a keeps the things that have to be kept somewhere.\npackage a\n",
			"b/b.go": "// Package b keeps the things that have to be\n// kept somewhere.\npackage b\n",
		}, "copied from"},
	}},
	"package names": {packageNames, []example{
		{files{"a/util/a.go": "package util\n"}, "a/util: package util is named after nothing"},
		{files{"a/x.go": "package helpers\n"}, "package helpers is named after nothing"},
		{files{"misc/x.go": "package x\n"}, "package x is named after nothing"},
	}},
	"imports": {imports, []example{
		{files{"a/a.go": `package a; import _ "k8s.io/kubernetes/pkg/x"`}, "never requires Kubernetes"},
		{files{"internal/network/x/a.go": `package a; import _ "sigs.k8s.io/controller-runtime"`}, "without controllers"},
		{files{
			"internal/k8shost/a.go": `package a; import _ "plasmacloud.io/plasmacloud/internal/b"`,
			"internal/b/b.go":       `package b; import _ "sigs.k8s.io/controller-runtime/pkg/client"`,
		}, "internal/k8shost imports internal/b imports sigs.k8s.io/controller-runtime/pkg/client"},
		{files{"internal/task/memory/a.go": `package a; import _ "sigs.k8s.io/controller-runtime/pkg/client"`}, "without controllers"},
		{files{"internal/iam/a.go": `package a; import _ "sigs.k8s.io/controller-runtime/pkg/client"`}, "without controllers"},
		{files{"internal/b/b.go": `package b; import _ "plasmacloud.io/plasmacloud/internal/distro/cache"`}, "cmd/distro alone"},
		{files{"internal/release/b.go": `package b; import _ "plasmacloud.io/plasmacloud/internal/distro"`}, "where nothing is built"},
		{files{
			"distro/v1.99/go.mod":  "module x\n",
			"distro/v1.99/main.go": `package main; import _ "plasmacloud.io/plasmacloud/internal/release"`,
		}, "import nothing of the root"},
	}},
	"requirements": {requirements, []example{
		{files{"go.mod": "module x\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n"}, "requires k8s.io/kubernetes"},
		{files{"go.work": ""}, "go.work"},
	}},
	"file sizes": {fileSizes, []example{
		{files{"a/a.go": "package a\n" + lines(499)}, "a/a.go has 500 lines; the limit is 500"},
		{files{"a/a_test.go": "package a\n" + lines(799)}, "the limit is 800"},
		{files{"cmd/x/main.go": "package main\n" + lines(59)}, "cmd/x/main.go has 60 lines"},
		{files{"a/data.bin": strings.Repeat("x", maxBytes+1)}, "a/data.bin has 1048577 bytes"},
	}},
	"function sizes": {functionSizes, []example{
		{files{"a/a.go": "package a\n\nfunc f() {\n" + lines(78) + "}\n"}, "a/a.go:3: f has 80 lines"},
	}},
	"makefile": {makefile, []example{
		{files{"Makefile": ".PHONY: a b\na: ## Do a\nb:\n"}, "target b has no help"},
		{files{"Makefile": "a: ## Do a\n"}, "target a is not in .PHONY"},
		{files{"Makefile": ".PHONY: $(X)\n$(X): x-%: y\n"}, "target $(X) has no help"},
		{files{"Makefile": lines(250)}, "the limit is 250"},
	}},
	"words": {words, []example{
		{files{"docs/a.md": "fine\n" + "TO" + "DO: more\n"}, "docs/a.md:2"},
		{files{"a/a.go": "package a // " + "FIX" + "ME\n"}, "a/a.go:1"},
	}},
	"no init": {noInit, []example{
		{files{"a/a.go": "package a\nfunc init() {}\n"}, "a/a.go:2: init"},
	}},
	"no sleep": {noSleep, []example{
		{files{"a/a.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"}, "a/a.go:3: time.Sleep"},
		{files{"a/a.go": "package a\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n"}, "a/a.go:3: time.Sleep"},
	}},
	"no skip": {noSkip, []example{
		{files{"a/a_test.go": "package a\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip() }\n"}, "a/a_test.go:3: Skip"},
		{files{"a/a_test.go": "package a\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skipf(\"\") }\n"}, "a/a_test.go:3: Skipf"},
	}},
}

type files map[string]string

type example struct {
	files files
	says  string
}

// lines are n lines that change nothing.
func lines(n int) string { return strings.Repeat("\n", n) }

func TestRepositoryKeepsTheRules(t *testing.T) {
	repository, err := load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(repository.goFiles) < 50 {
		t.Fatalf("only %d Go files were found", len(repository.goFiles))
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			broken := rule.check(repository)
			slices.Sort(broken)
			for _, place := range broken {
				t.Error(place)
			}
		})
	}
}

func TestEveryRuleCanBeBroken(t *testing.T) {
	for name, rule := range rules {
		for _, example := range rule.examples {
			if broken := check(t, rule.check, example.files); !strings.Contains(strings.Join(broken, "\n"), example.says) {
				t.Errorf("%s: %q was not reported, but %q", name, example.says, broken)
			}
		}
		if len(rule.examples) == 0 {
			t.Errorf("%s: no example breaks it", name)
		}
	}
}

func TestWhatIsAllowed(t *testing.T) {
	good := files{
		"go.mod":             "module " + module + "\n",
		"Makefile":           "X := 1\n.PHONY: a $(E)\na: b ## Do a\n\techo a: b\n$(E): e-%: a ## Do one\n",
		"_output/a.go":       "not Go",
		"a/a.go":             "// Package a keeps the things that have to be kept somewhere.\npackage a\n\nfunc f() {" + lines(77) + "}\n",
		"a/a_test.go":        "package a_test\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
		"a/doc.go":           "package a\n\ntype T struct{}\n\nfunc (T) init() {}\n",
		"cmd/distro/main.go": "// Command distro builds the distribution from its sources.\npackage main\n" + `import _ "plasmacloud.io/plasmacloud/internal/distro"`,
		"distro/v1/go.mod":   "module x\n",
		"distro/v1/a.go":     `package main; import _ "k8s.io/kubernetes/cmd/kubelet/app"`,
		"internal/task/record/a.go": "// Package record keeps what the engine has to remember in the API.\npackage record\n" +
			`import _ "sigs.k8s.io/controller-runtime/pkg/client"`,
		"internal/distro/a.go": "// Package distro builds everything that is in a release, and caches it.\npackage distro\n" +
			`import _ "plasmacloud.io/plasmacloud/internal/distro/cache"`,
	}
	for name, rule := range rules {
		if broken := check(t, rule.check, good); len(broken) > 0 {
			t.Errorf("%s: %q", name, broken)
		}
	}
}

func check(t *testing.T, rule func(*tree) []string, content files) []string {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range content {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	parsed, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return rule(parsed)
}

// root is the folder of the root module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
