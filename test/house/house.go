// Package house keeps the rules of this repository true by testing them: what
// every package says about itself, how large files and functions may grow, who
// may import whom, and what no file may hold.
//
// A rule is a function from the source tree to the places that break it. New
// rules go into a file of their kind and into the list in house_test.go, with an
// example that breaks them: a rule that cannot fail keeps nothing.
package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the root module.
const module = "plasmacloud.io/plasmacloud"

// tree is the repository, parsed.
type tree struct {
	files   map[string]textFile
	goFiles []goFile
	fset    *token.FileSet
}

// textFile is any file; content is nil if it is binary or very large.
type textFile struct {
	size    int64
	content []byte
}

func (f textFile) lines() int { return bytes.Count(f.content, []byte("\n")) }

// goFile is a Go source file, whatever its build constraints.
type goFile struct {
	path   string
	module string // the folder of its go.mod, "." for the root module
	ast    *ast.File
}

func (f goFile) dir() string  { return path.Dir(f.path) }
func (f goFile) test() bool   { return strings.HasSuffix(f.path, "_test.go") }
func (f goFile) inRoot() bool { return f.module == "." }

// imports are the import paths of the file.
func (f goFile) imports() []string {
	var imports []string
	for _, spec := range f.ast.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			imports = append(imports, imported)
		}
	}
	return imports
}

// maxParsed bounds what is read into memory; no source file comes near it.
const maxParsed = 2 << 20

// load reads the tree below root, without what is built or belongs to git.
func load(root fs.FS) (*tree, error) {
	t := &tree{files: map[string]textFile{}, fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == ".git" || name == "_output" {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		f := textFile{size: info.Size()}
		if f.size <= maxParsed {
			content, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			if !bytes.ContainsRune(content, 0) {
				f.content = content
			}
		}
		t.files[name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return t, t.parse()
}

func (t *tree) parse() error {
	for _, name := range t.names() {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		parsed, err := parser.ParseFile(t.fset, name, t.files[name].content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		if ast.IsGenerated(parsed) {
			continue // its generator's source is what the rules are for
		}
		t.goFiles = append(t.goFiles, goFile{path: name, module: t.moduleOf(name), ast: parsed})
	}
	return nil
}

// names are all files, in order.
func (t *tree) names() []string {
	names := make([]string, 0, len(t.files))
	for name := range t.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// moduleOf returns the folder of the go.mod that a file belongs to.
func (t *tree) moduleOf(name string) string {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if _, ok := t.files[path.Join(dir, "go.mod")]; ok || dir == "." {
			return dir
		}
	}
}

// packages groups the files of the root module by folder; external test packages
// (x_test) belong to the package they test.
func (t *tree) packages() map[string][]goFile {
	packages := map[string][]goFile{}
	for _, f := range t.goFiles {
		if f.inRoot() {
			packages[f.dir()] = append(packages[f.dir()], f)
		}
	}
	return packages
}

// importPath is the import path of a folder of the root module.
func importPath(dir string) string { return path.Join(module, dir) }

// at names the place of a node.
func (t *tree) at(node ast.Node) string {
	position := t.fset.Position(node.Pos())
	return fmt.Sprintf("%s:%d", position.Filename, position.Line)
}
