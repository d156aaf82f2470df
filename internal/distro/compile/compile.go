// Package compile turns source into programs: Go modules under distro/ with the go command, and upstream's one C
// program with gcc. It makes every program static, so that it runs in any image, and the same in every build.
package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/tool"
)

// goEnvironment is what makes two builds of the same source equal, wherever they run.
var goEnvironment = []string{"GOWORK=off", "GOFLAGS="}

// Toolchain is the compilers of this machine. A program's recipe names them: another compiler, another program.
type Toolchain struct {
	Go string // version, target and experiments of the go command
	C  string // version of gcc
}

// Detect asks the compilers for their versions.
func Detect(ctx context.Context) (Toolchain, error) {
	out, err := tool.Run(ctx, tool.Call{
		Name: "go", Args: []string{"env", "-json", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT"},
		Dir: os.TempDir(), Env: goEnvironment,
	})
	if err != nil {
		return Toolchain{}, fmt.Errorf("detect go: %w", err)
	}
	var fields map[string]string
	if err := json.Unmarshal(out, &fields); err != nil {
		return Toolchain{}, fmt.Errorf("detect go: %w", err)
	}
	gcc, err := tool.Run(ctx, tool.Call{Name: "gcc", Args: []string{"-dumpfullversion"}})
	if err != nil {
		return Toolchain{}, fmt.Errorf("detect gcc: %w", err)
	}
	return Toolchain{Go: fmt.Sprint(fields), C: strings.TrimSpace(string(gcc))}, nil
}

// Program is one program of a module.
type Program struct {
	Name    string // of the file that is made
	Package string // import path of its main package; "." is the module's own
}

// Go is a build of programs from one module.
type Go struct {
	Dir      string // the module
	Programs []Program
	Tags     []string
	Cgo      bool
	CFlags   string            // for cgo
	Library  string            // pkg-config name of a C library that is linked in
	Stamps   map[string]string // string variables to set: import path and name, value
}

// Recipe adds to the key all that decides what comes out.
func (g Go) Recipe(k *cache.Key, toolchain Toolchain) {
	k.Add("go", toolchain.Go).AddFiles(g.Dir, "go.mod", "go.sum", "*.go")
	for _, program := range g.Programs {
		k.Add("program", program.Name, program.Package)
	}
	k.Add("flags", g.flags()...).Add("environment", g.environment()...)
	if g.Cgo {
		k.Add("c", toolchain.C)
	}
}

// Run builds the programs into dir.
func (g Go) Run(ctx context.Context, dir string) error {
	if g.Library != "" {
		call := tool.Call{Name: "pkg-config", Args: []string{"--exists", "--print-errors", g.Library}}
		if _, err := tool.Run(ctx, call); err != nil {
			return fmt.Errorf("find C library %s (install its -dev package): %w", g.Library, err)
		}
	}
	for _, program := range g.Programs {
		args := append([]string{"build"}, g.flags()...)
		args = append(args, "-o", filepath.Join(dir, program.Name), program.Package)
		if _, err := tool.Run(ctx, tool.Call{Name: "go", Args: args, Dir: g.Dir, Env: g.environment()}); err != nil {
			return fmt.Errorf("compile %s: %w", path.Join(filepath.Base(g.Dir), program.Name), err)
		}
	}
	return nil
}

func (g Go) flags() []string {
	link := []string{"-s", "-w"}
	for _, name := range sortedKeys(g.Stamps) {
		link = append(link, "-X", name+"="+g.Stamps[name])
	}
	tags := g.Tags
	if g.Cgo {
		link = append(link, "-linkmode=external", "-extldflags=-static")
		tags = append([]string{"netgo", "osusergo", "static_build"}, tags...)
	}
	flags := []string{"-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=" + strings.Join(link, " ")}
	if len(tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(tags, ","))
	}
	return flags
}

func (g Go) environment() []string {
	environment := append([]string{"CGO_ENABLED=0"}, goEnvironment...)
	if g.Cgo {
		environment[0] = "CGO_ENABLED=1"
		environment = append(environment, "CGO_CFLAGS=-O2 -g0 "+g.CFlags)
	}
	return environment
}
