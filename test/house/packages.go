package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// packageDocs: every package tells a newcomer what belongs in it, in words of its
// own.
func packageDocs(t *tree) []string {
	const shortest = 40 // "Package x does y." says nothing that the name does not
	var broken []string
	seen := map[string]string{}
	for dir, files := range t.packages() {
		name, doc := packageDoc(files)
		opening := "Package " + name + " "
		if name == "main" {
			opening = "Command "
		}
		switch {
		case doc == "":
			broken = append(broken, fmt.Sprintf("%s: package %s has no package comment", dir, name))
			continue
		case !strings.HasPrefix(doc, opening) && name != "main":
			broken = append(broken, fmt.Sprintf("%s: the package comment does not begin with %q", dir, opening))
		case len(doc) < len(opening)+shortest:
			broken = append(broken, fmt.Sprintf("%s: the package comment says nothing: %q", dir, strings.TrimSpace(doc)))
		}
		text := strings.Join(strings.Fields(strings.TrimPrefix(doc, opening)), " ")
		if other, ok := seen[text]; ok {
			broken = append(broken, fmt.Sprintf("%s: the package comment is copied from %s", dir, other))
		}
		seen[text] = dir
	}
	return broken
}

// packageDoc returns the name and the comment of a package; test files count only
// where there are no others.
func packageDoc(files []goFile) (name, doc string) {
	for _, tests := range []bool{false, true} {
		for _, f := range files {
			if f.test() != tests {
				continue
			}
			name = strings.TrimSuffix(f.ast.Name.Name, "_test")
			if f.ast.Doc != nil && f.ast.Doc.Text() != "" {
				return name, f.ast.Doc.Text()
			}
		}
		if name != "" {
			return name, ""
		}
	}
	return name, ""
}

// packageNames: a package is named after what it provides.
func packageNames(t *tree) []string {
	empty := regexp.MustCompile(`^(utils?|commons?|helpers?|types|misc)$`)
	var broken []string
	for dir, files := range t.packages() {
		name, _ := packageDoc(files)
		if empty.MatchString(name) || empty.MatchString(path.Base(dir)) {
			broken = append(broken, fmt.Sprintf("%s: package %s is named after nothing", dir, name))
		}
	}
	return broken
}

// importRule forbids imports.
type importRule struct {
	why       string
	from      func(dir string) bool // folders of the root module it is about
	forbidden func(imported string) bool
	indirect  bool // also by way of other packages of the root module
}

func importRules() []importRule {
	return []importRule{
		{
			why:       "the root module never requires Kubernetes itself; that is for distro/v1.NN",
			from:      func(string) bool { return true },
			forbidden: func(imported string) bool { return within(imported, "k8s.io/kubernetes") },
		},
		{
			why: "engines and the launcher work without controllers",
			from: func(dir string) bool {
				for _, engine := range []string{"internal/network", "internal/release", "internal/k8shost", "internal/iam", "internal/task", "internal/terraform"} {
					if within(dir, engine) {
						return !within(dir, "internal/task/record") // is where the engine meets the API
					}
				}
				return false
			},
			forbidden: func(imported string) bool { return within(imported, "sigs.k8s.io/controller-runtime") },
			indirect:  true,
		},
		{
			why:       "the builder is for cmd/distro alone",
			from:      func(dir string) bool { return dir != "cmd/distro" && !within(dir, "internal/distro") },
			forbidden: func(imported string) bool { return within(imported, importPath("internal/distro")) },
		},
		{
			why:       "the catalogue is read where nothing is built",
			from:      func(dir string) bool { return within(dir, "internal/release") },
			forbidden: func(imported string) bool { return within(imported, importPath("internal/distro")) },
			indirect:  true,
		},
	}
}

// within says whether an import path or folder is parent or lies below it.
func within(name, parent string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}

// imports: the layers keep apart.
func imports(t *tree) []string {
	packages := t.packages()
	var broken []string
	for dir := range packages {
		for _, rule := range importRules() {
			if !rule.from(dir) {
				continue
			}
			for _, chain := range forbiddenImports(packages, dir, rule) {
				broken = append(broken, fmt.Sprintf("%s: %s", strings.Join(chain, " imports "), rule.why))
			}
		}
	}
	for _, f := range t.goFiles {
		for _, imported := range f.imports() {
			if !f.inRoot() && within(imported, module) {
				broken = append(broken, fmt.Sprintf("%s imports %s: modules below distro import nothing of the root", f.path, imported))
			}
		}
	}
	return broken
}

// forbiddenImports returns the ways from the package to what the rule forbids. A
// package's tests count only for the package itself.
func forbiddenImports(packages map[string][]goFile, from string, rule importRule) [][]string {
	var chains [][]string
	seen := map[string]bool{}
	var visit func(dir string, chain []string)
	visit = func(dir string, chain []string) {
		chain = append(slices.Clone(chain), dir)
		for _, f := range packages[dir] {
			if f.test() && dir != from {
				continue
			}
			for _, imported := range f.imports() {
				if seen[imported] {
					continue
				}
				seen[imported] = true
				if rule.forbidden(imported) {
					chains = append(chains, append(slices.Clone(chain), imported))
				} else if rule.indirect && within(imported, module) {
					visit(strings.TrimPrefix(imported, module+"/"), chain)
				}
			}
		}
	}
	visit(from, nil)
	return chains
}

// requirements: what the root module may not require, even unused.
func requirements(t *tree) []string {
	var broken []string
	for _, line := range strings.Split(string(t.files["go.mod"].content), "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) > 0 && fields[0] == "k8s.io/kubernetes" {
			broken = append(broken, "go.mod: the root module requires k8s.io/kubernetes")
		}
	}
	for _, name := range t.names() {
		if path.Base(name) == "go.work" {
			broken = append(broken, name+": the modules below distro are built each by itself")
		}
	}
	return broken
}
