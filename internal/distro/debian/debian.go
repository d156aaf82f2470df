// Package debian makes things out of Debian packages: a single program unpacked from one, or a whole root file system.
// It asks this machine's own package configuration where packages come from and whom to trust, and names no mirror.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/tool"
)

// Host is what this machine's package configuration says.
type Host struct {
	Suite string // code name of the release, as in bookworm
	Arch  string // as Debian writes it
}

// Detect asks this machine.
func Detect(ctx context.Context) (Host, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return Host{}, fmt.Errorf("detect the Debian release: %w", err)
	}
	var host Host
	for line := range strings.Lines(string(release)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			host.Suite = strings.Trim(value, `"`)
		}
	}
	if host.Suite == "" {
		return Host{}, errors.New("detect the Debian release: no VERSION_CODENAME in /etc/os-release; images are built on Debian")
	}
	arch, err := tool.Run(ctx, tool.Call{Name: "dpkg", Args: []string{"--print-architecture"}})
	if err != nil {
		return Host{}, fmt.Errorf("detect the architecture: %w", err)
	}
	host.Arch = strings.TrimSpace(string(arch))
	return host, nil
}

// Package is an unpacked package.
type Package struct {
	Dir     string
	Version string
}

// Unpack downloads a package and unpacks it below dir, without installing it. Where this machine's package lists are
// missing or older than the mirror, it fetches lists of its own and leaves the machine's alone.
func Unpack(ctx context.Context, name, dir string) (Package, error) {
	file, err := download(ctx, name, filepath.Join(dir, "machine-lists"))
	if err != nil {
		lists := filepath.Join(dir, "lists")
		own := []string{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + filepath.Join(dir, "apt-cache")}
		if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil { //nolint:gosec // public packages
			return Package{}, fmt.Errorf("download package %s: %w", name, err)
		}
		if _, updateErr := tool.Run(ctx, tool.Call{Name: "apt-get", Args: append(own, "update")}); updateErr != nil {
			return Package{}, fmt.Errorf("download package %s: %w", name, errors.Join(err, updateErr))
		}
		if file, err = download(ctx, name, filepath.Join(dir, "own-lists"), own...); err != nil {
			return Package{}, fmt.Errorf("download package %s: %w", name, err)
		}
	}
	version, err := tool.Run(ctx, tool.Call{Name: "dpkg-deb", Args: []string{"--field", file, "Version"}})
	if err != nil {
		return Package{}, fmt.Errorf("read package %s: %w", name, err)
	}
	unpacked := filepath.Join(dir, "unpacked")
	if _, err := tool.Run(ctx, tool.Call{Name: "dpkg-deb", Args: []string{"--extract", file, unpacked}}); err != nil {
		return Package{}, fmt.Errorf("unpack package %s: %w", name, err)
	}
	return Package{Dir: unpacked, Version: strings.TrimSpace(string(version))}, nil
}

// download fetches the package's file into dir; apt checks it against the signed lists.
func download(ctx context.Context, name, dir string, options ...string) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // apt drops root to download
		return "", err
	}
	options = append(options, "-o", "APT::Sandbox::User=root", "download", name)
	if _, err := tool.Run(ctx, tool.Call{Name: "apt-get", Args: options, Dir: dir}); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", errors.Join(fmt.Errorf("apt-get download %s left %d files, want one", name, len(files)), err)
	}
	return files[0], nil
}
