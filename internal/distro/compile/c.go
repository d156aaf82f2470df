package compile

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/tool"
)

// C is a program made of one C file.
type C struct {
	Source  string
	Name    string
	Defines map[string]string
}

// Recipe adds to the key all that decides what comes out.
func (c C) Recipe(k *cache.Key, toolchain Toolchain) {
	k.Add("c", toolchain.C).AddFiles(filepath.Dir(c.Source), filepath.Base(c.Source)).Add("flags", c.flags()...)
}

// Run builds the program into dir.
func (c C) Run(ctx context.Context, dir string) error {
	args := append(c.flags(), "-o", filepath.Join(dir, c.Name), filepath.Base(c.Source))
	if _, err := tool.Run(ctx, tool.Call{Name: "gcc", Args: args, Dir: filepath.Dir(c.Source)}); err != nil {
		return fmt.Errorf("compile %s: %w", c.Name, err)
	}
	return nil
}

func (c C) flags() []string {
	flags := []string{"-Os", "-Wall", "-Werror", "-static", "-s", "-Wl,--build-id=none"}
	for _, name := range sortedKeys(c.Defines) {
		flags = append(flags, "-D"+name+"="+c.Defines[name])
	}
	return flags
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
