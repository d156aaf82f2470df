package compile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
)

func source(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goModule(t *testing.T) Go {
	t.Helper()
	return Go{
		Dir: source(t, map[string]string{
			"go.mod":  "module example.com/hello\n\ngo 1.26.0\n",
			"main.go": "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n",
		}),
		Programs: []Program{{Name: "hello", Package: "."}},
		Stamps:   map[string]string{"main.version": "v1.2.3"},
	}
}

func TestAGoProgramIsStampedAndTheSameEverywhere(t *testing.T) {
	var built [][]byte
	for range 2 {
		out := t.TempDir()
		if err := goModule(t).Run(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(out, "hello")
		if said, err := exec.Command(program).CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != "v1.2.3" {
			t.Fatalf("the program says %q, %v", said, err)
		}
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, data)
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("two builds from two folders differ")
	}
}

func TestACProgramIsStatic(t *testing.T) {
	dir, out := source(t, map[string]string{"hi.c": "#include <stdio.h>\nint main(void) { puts(GREETING); return 0; }\n"}), t.TempDir()
	program := C{Source: filepath.Join(dir, "hi.c"), Name: "hi", Defines: map[string]string{"GREETING": `"hello"`}}
	if err := program.Run(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(filepath.Join(out, "hi")).Output(); err != nil || string(said) != "hello\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
	if linked, err := exec.Command("ldd", filepath.Join(out, "hi")).CombinedOutput(); err == nil {
		t.Errorf("it is linked with %s", linked)
	}
}

func TestACompilerErrorIsShown(t *testing.T) {
	broken := Go{Dir: source(t, map[string]string{"go.mod": "module m\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() { nosuch() }\n"})}
	broken.Programs = []Program{{Name: "broken", Package: "."}}
	if err := broken.Run(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "undefined: nosuch") {
		t.Errorf("Run = %v", err)
	}
	missing := Go{Cgo: true, Library: "no-such-library"}
	if err := missing.Run(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "-dev package") {
		t.Errorf("Run without its C library = %v", err)
	}
}

func key(t *testing.T, build Go, toolchain Toolchain) string {
	t.Helper()
	k := cache.NewKey()
	build.Recipe(k, toolchain)
	sum, err := k.Sum()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestTheRecipeNamesAllThatCounts(t *testing.T) {
	toolchain := Toolchain{Go: "go1.26", C: "gcc 12"}
	base := goModule(t)
	sum := key(t, base, toolchain)
	if key(t, goModule(t), toolchain) != sum {
		t.Error("the same module elsewhere has another recipe")
	}
	if key(t, base, Toolchain{Go: "go1.26", C: "gcc 13"}) != sum {
		t.Error("another C compiler changes a program without C")
	}
	for what, change := range map[string]func(*Go, *Toolchain){
		"stamp":      func(g *Go, _ *Toolchain) { g.Stamps = map[string]string{"main.version": "v2"} },
		"tags":       func(g *Go, _ *Toolchain) { g.Tags = []string{"netgo"} },
		"cgo":        func(g *Go, _ *Toolchain) { g.Cgo = true },
		"program":    func(g *Go, _ *Toolchain) { g.Programs = append(g.Programs, Program{Name: "b", Package: "./b"}) },
		"Go version": func(_ *Go, tc *Toolchain) { tc.Go = "go1.27" },
		"source": func(g *Go, _ *Toolchain) {
			g.Dir = source(t, map[string]string{"go.mod": "module m\n", "main.go": "package main\n"})
		},
	} {
		build, tc := base, toolchain
		change(&build, &tc)
		if key(t, build, tc) == sum {
			t.Errorf("another %s has the same recipe", what)
		}
	}
}

func TestDetect(t *testing.T) {
	toolchain, err := Detect(t.Context())
	if err != nil || !strings.Contains(toolchain.Go, "GOVERSION:go1.") || toolchain.C == "" {
		t.Errorf("Detect = %+v, %v", toolchain, err)
	}
}
