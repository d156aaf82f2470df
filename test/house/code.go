package house

import (
	"fmt"
	"go/ast"
	"strconv"
)

// noInit: nothing happens because a package is imported.
func noInit(t *tree) []string {
	var broken []string
	for _, f := range t.goFiles {
		for _, declared := range f.ast.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				broken = append(broken, fmt.Sprintf("%s: init runs without being asked: use a constructor", t.at(function)))
			}
		}
	}
	return broken
}

// noSleep: programs wait for events, with a deadline, not for time to pass.
func noSleep(t *tree) []string {
	var broken []string
	for _, f := range t.goFiles {
		name := importName(f, "time")
		if f.test() || name == "" {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "Sleep" {
				if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == name {
					broken = append(broken, fmt.Sprintf("%s: time.Sleep: use a timer and select, or a watch", t.at(selector)))
				}
			}
			return true
		})
	}
	return broken
}

// importName is the name under which the file knows a package, or "".
func importName(f goFile, imported string) string {
	for _, spec := range f.ast.Imports {
		if unquoted, err := strconv.Unquote(spec.Path.Value); err != nil || unquoted != imported {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return imported
	}
	return ""
}

// noSkip: a test that cannot run fails; one that is skipped proves nothing.
func noSkip(t *tree) []string {
	var broken []string
	for _, f := range t.goFiles {
		if importName(f, "testing") == "" {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && skips(selector.Sel.Name) {
				broken = append(broken, fmt.Sprintf("%s: %s: a test that cannot run fails", t.at(call), selector.Sel.Name))
			}
			return true
		})
	}
	return broken
}

func skips(method string) bool {
	return method == "Skip" || method == "Skipf" || method == "SkipNow"
}
