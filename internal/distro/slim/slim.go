// Package slim cuts the source of a Terraform provider down to the services that are used, before it is compiled: the
// providers of the large clouds hold hundreds of them, and a full build of one takes an hour of processor time and
// nine gigabytes of memory. It works on the syntax tree of the few files in which a provider lists its services, and
// refuses a name that it does not find there: what upstream renames is noticed, never left out in silence.
package slim

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Format is part of a recipe that uses this package: it changes when what comes out does.
const Format = "1"

// Copy copies what a build needs of a module's source to an empty directory: no tests, no documentation.
func Copy(source, target string) error {
	tree := os.DirFS(source)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if unneeded(name) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(target, name), 0o755) //nolint:gosec // source code
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(target, name), data, 0o644) //nolint:gosec // source code, from a read-only tree
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return nil
}

// unneeded are folders that hold a great deal and no code of the program.
func unneeded(relative string) bool {
	switch relative {
	case "website", "examples", "docs", "contributing", ".ci", ".github", ".changelog", ".teamcity", "META.d", "scripts":
		return true
	}
	return slices.Contains([]string{"testdata", "test-fixtures"}, filepath.Base(relative))
}

// Services is a list of services in a provider's source: files that import one package a service, from below Prefix.
type Services struct {
	Files  []string // relative to the module; a kept service has to be in one of them
	Prefix string   // import path, with a slash at its end
	Keep   []string // what follows the prefix
}

// Trim removes every other service's import from the files, and from the lists in them what refers to it.
func (s Services) Trim(dir string) error {
	found := make(map[string]bool)
	for _, name := range s.Files {
		source, err := open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		dropped := make(map[string]bool)
		source.filterImports(func(spec *ast.ImportSpec) bool {
			service, ours := strings.CutPrefix(importPath(spec), s.Prefix)
			if !ours {
				return true
			}
			if slices.Contains(s.Keep, service) {
				found[service] = true
				return true
			}
			dropped[localName(spec)] = true
			return false
		})
		source.dropElements(dropped)
		if err := source.write(); err != nil {
			return err
		}
	}
	for _, service := range s.Keep {
		if !found[service] {
			return fmt.Errorf("trim provider: no service %q in %s", service, strings.Join(s.Files, ", "))
		}
	}
	return nil
}

// Methods removes the methods of a type that no code asks for by name, from a file that has one for each service. The
// code that counts is that of the packages below the roots, and of all packages of the module that they import.
type Methods struct {
	File   string // relative to the module
	Module string // import path of the module
	Roots  []string
}

// Trim removes them, and the imports that only they needed.
func (m Methods) Trim(dir string) error {
	asked := make(map[string]bool)
	visited := make(map[string]bool)
	for _, root := range m.Roots {
		if err := m.visit(dir, root, asked, visited); err != nil {
			return err
		}
	}
	source, err := open(filepath.Join(dir, m.File))
	if err != nil {
		return err
	}
	source.tree.Decls = slices.DeleteFunc(source.tree.Decls, func(declared ast.Decl) bool {
		method, ok := declared.(*ast.FuncDecl)
		return ok && method.Recv != nil && !asked[method.Name.Name]
	})
	used := make(map[string]bool)
	ast.Inspect(source.tree, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok {
				used[name.Name] = true
			}
		}
		return true
	})
	source.filterImports(func(spec *ast.ImportSpec) bool { return used[localName(spec)] || used[plainName(spec)] })
	return source.write()
}

// visit collects every name that is selected in a package or in those of the module that it imports.
func (m Methods) visit(dir, folder string, asked, visited map[string]bool) error {
	if visited[folder] {
		return nil
	}
	visited[folder] = true
	names, err := filepath.Glob(filepath.Join(dir, folder, "*.go"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("trim provider: no source in %s", folder)
	}
	for _, name := range names {
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("trim provider: %w", err)
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				asked[selector.Sel.Name] = true
			}
			return true
		})
		for _, spec := range tree.Imports {
			below, ours := strings.CutPrefix(importPath(spec), m.Module+"/")
			if !ours {
				continue
			}
			if err := m.visit(dir, below, asked, visited); err != nil {
				return err
			}
		}
	}
	return nil
}

// source is a file that is being changed. Its comments go: they would end up in other places.
type source struct {
	name string
	set  *token.FileSet
	tree *ast.File
}

func open(name string) (*source, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("trim provider: %w", err)
	}
	return &source{name: name, set: set, tree: tree}, nil
}

// filterImports removes the imports that are not to be kept.
func (s *source) filterImports(keep func(*ast.ImportSpec) bool) {
	for _, declared := range s.tree.Decls {
		block, ok := declared.(*ast.GenDecl)
		if !ok || block.Tok != token.IMPORT {
			continue
		}
		block.Specs = slices.DeleteFunc(block.Specs, func(spec ast.Spec) bool { return !keep(spec.(*ast.ImportSpec)) })
	}
}

// dropElements removes from every composite literal the elements that refer to one of the packages.
func (s *source) dropElements(packages map[string]bool) {
	ast.Inspect(s.tree, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		literal.Elts = slices.DeleteFunc(literal.Elts, func(element ast.Expr) bool {
			refers := false
			ast.Inspect(element, func(node ast.Node) bool {
				if selector, ok := node.(*ast.SelectorExpr); ok {
					name, ok := selector.X.(*ast.Ident)
					refers = refers || ok && packages[name.Name]
				}
				return !refers
			})
			return refers
		})
		return true
	})
}

func (s *source) write() error {
	file, err := os.OpenFile(s.name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("trim provider: %w", err)
	}
	if err := errors.Join(format.Node(file, s.set, s.tree), file.Close()); err != nil {
		return fmt.Errorf("trim provider: write %s: %w", s.name, err)
	}
	return nil
}

func importPath(spec *ast.ImportSpec) string {
	value, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return "" // the parser has seen to it that it is a string
	}
	return value
}

// localName is what a file calls a package that it imports.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(importPath(spec))
}

// plainName is the package's name where its path ends with a major version, as in example.com/errs/v2.
func plainName(spec *ast.ImportSpec) string {
	if base := path.Base(importPath(spec)); len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" && spec.Name == nil {
		return path.Base(path.Dir(importPath(spec)))
	}
	return localName(spec)
}
