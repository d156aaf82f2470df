package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// Budgets. What outgrows them is divided, not excepted.
const (
	maxFile     = 500 // lines
	maxTestFile = 800
	maxFunction = 80
	maxMain     = 60
	maxMakefile = 250
	maxBytes    = 1 << 20
)

// fileSizes: a file can be read in one sitting.
func fileSizes(t *tree) []string {
	var broken []string
	for _, f := range t.goFiles {
		limit := maxFile
		switch {
		case f.test():
			limit = maxTestFile
		case f.inRoot() && within(f.dir(), "cmd"):
			limit = maxMain
		}
		if n := t.files[f.path].lines(); n >= limit {
			broken = append(broken, fmt.Sprintf("%s has %d lines; the limit is %d", f.path, n, limit))
		}
	}
	for name, f := range t.files {
		if f.size > maxBytes {
			broken = append(broken, fmt.Sprintf("%s has %d bytes: what is built or downloaded does not belong here", name, f.size))
		}
	}
	return broken
}

// functionSizes: a function fits on a screen.
func functionSizes(t *tree) []string {
	var broken []string
	for _, f := range t.goFiles {
		for _, declared := range f.ast.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := t.fset.Position(function.End()).Line - t.fset.Position(function.Pos()).Line + 1
			if lines >= maxFunction {
				broken = append(broken, fmt.Sprintf("%s: %s has %d lines; the limit is %d", t.at(function), function.Name.Name, lines, maxFunction))
			}
		}
	}
	return broken
}

// makefile: the Makefile is short, and `make help` lists everything in it.
func makefile(t *tree) []string {
	f, ok := t.files["Makefile"]
	if !ok {
		return nil
	}
	var broken []string
	if n := f.lines(); n >= maxMakefile {
		broken = append(broken, fmt.Sprintf("Makefile has %d lines; the limit is %d", n, maxMakefile))
	}
	lines := strings.Split(string(f.content), "\n")
	rule := regexp.MustCompile(`^([^\s:#=]+):([^=]|$)`)
	documented := map[string]bool{}
	for _, line := range lines {
		if match := rule.FindStringSubmatch(line); match != nil && strings.Contains(line, "## ") {
			documented[match[1]] = true
		}
	}
	phony := map[string]bool{}
	for _, line := range lines {
		targets, ok := strings.CutPrefix(line, ".PHONY:")
		if !ok {
			continue
		}
		for _, target := range strings.Fields(targets) {
			phony[target] = true
			if !documented[target] {
				broken = append(broken, fmt.Sprintf("Makefile: target %s has no help: `%s: … ## what it does`", target, target))
			}
		}
	}
	for target := range documented {
		if !phony[target] {
			broken = append(broken, fmt.Sprintf("Makefile: target %s is not in .PHONY", target))
		}
	}
	return broken
}

// words: what is not finished is an issue, not a remark in a file.
func words(t *tree) []string {
	// Put together, so that this file does not hold them.
	unfinished := regexp.MustCompile(`\b(` + "TO" + "DO|FIX" + "ME|XX" + `X)\b`)
	var broken []string
	for name, f := range t.files {
		if ext := path.Ext(name); ext == ".sum" {
			continue
		}
		for i, line := range strings.Split(string(f.content), "\n") {
			if word := unfinished.FindString(line); word != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: %s: finish it, or open an issue", name, i+1, word))
			}
		}
	}
	return broken
}
