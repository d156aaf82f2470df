package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/tool"
)

// configDir is this machine's package configuration.
const configDir = "/etc/apt"

// Bootstrap makes a root file system of the host's suite with the given packages in dir, with all updates installed.
// It needs root. Its mounts are its own and end with it.
func Bootstrap(ctx context.Context, host Host, packages []string, dir string) error {
	sources, err := Sources(configDir, host.Suite)
	if err != nil {
		return err
	}
	args := []string{
		"--variant=minbase", "--merged-usr", "--arch=" + host.Arch, "--components=main",
		"--include=" + strings.Join(packages, ","), host.Suite, dir,
	}
	if len(sources) > 0 && sources[0].Suite == host.Suite { // otherwise debootstrap knows one
		args = append(args, sources[0].URI)
	}
	if _, err := tool.Run(ctx, tool.Call{Name: "debootstrap", Args: args, OwnMounts: true}); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return errors.Join(err, bootstrapLog(dir))
	}
	if len(sources) == 0 {
		return nil
	}
	var lines strings.Builder
	for _, source := range sources {
		lines.WriteString(source.Line())
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/apt/sources.list"), []byte(lines.String()), 0o644); err != nil { //nolint:gosec // public
		return fmt.Errorf("write package sources: %w", err)
	}
	for _, verb := range [][]string{{"update"}, {"--yes", "dist-upgrade"}} {
		call := tool.Call{
			Name: "chroot", Args: append([]string{dir, "apt-get", "-o", "DPkg::Options::=--force-unsafe-io"}, verb...),
			Env: []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}, OwnMounts: true,
		}
		if _, err := tool.Run(ctx, call); err != nil {
			return fmt.Errorf("install updates: %w", err)
		}
	}
	return nil
}

// bootstrapLog is the end of debootstrap's own log, which says more than its output.
func bootstrapLog(dir string) error {
	log, err := os.ReadFile(filepath.Join(dir, "debootstrap/debootstrap.log"))
	if err != nil {
		return nil //nolint:nilerr // it did not get that far
	}
	return errors.New("debootstrap's log ends: " + string(log[max(0, len(log)-1000):]))
}

// Slim removes what no machine needs: documentation (but for the licences), translations, package lists and downloads,
// logs and caches.
func Slim(dir string) error {
	for _, emptied := range []string{
		"usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/doc-base", "usr/share/i18n",
		"var/lib/apt/lists", "var/cache", "var/log", "tmp", "run", "dev",
	} {
		if err := empty(filepath.Join(dir, emptied)); err != nil {
			return err
		}
	}
	docs, err := filepath.Glob(filepath.Join(dir, "usr/share/doc/*/*"))
	if err != nil {
		return fmt.Errorf("remove documentation: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "var/lib/dpkg/*-old"))
	if err != nil {
		return fmt.Errorf("remove old package lists: %w", err)
	}
	for _, path := range append(docs, old...) {
		if filepath.Base(path) == "copyright" {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove documentation: %w", err)
		}
	}
	return nil
}

// empty removes what is in a directory and leaves the directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", dir, err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("empty %s: %w", dir, err)
		}
	}
	return nil
}

// Pack writes the root file system as a tar file that is the same for the same content: sorted, with one time for all,
// with owners as numbers and extended attributes (capabilities of programs).
func Pack(ctx context.Context, dir string, w io.Writer) error {
	return tool.Stream(ctx, tool.Call{Name: "tar", Args: []string{
		"--create", "--directory=" + dir, "--sort=name", "--mtime=@0", "--numeric-owner", "--xattrs", "--xattrs-include=*",
		"--format=posix", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", ".",
	}}, w)
}

// Installed is one package of a root file system.
type Installed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Source  string `json:"source,omitempty"`
}

// ListInstalled reads the root file system's package database.
func ListInstalled(dir string) ([]Installed, error) {
	data, err := os.ReadFile(filepath.Join(dir, "var/lib/dpkg/status"))
	if err != nil {
		return nil, fmt.Errorf("list installed packages: %w", err)
	}
	return parseStatus(string(data)), nil
}

func parseStatus(status string) []Installed {
	var packages []Installed
	for stanza := range strings.SplitSeq(status, "\n\n") {
		fields := make(map[string]string)
		for line := range strings.Lines(stanza) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				fields[name] = strings.TrimSpace(value)
			}
		}
		if fields["Package"] == "" || !strings.HasSuffix(fields["Status"], " installed") {
			continue
		}
		packages = append(packages, Installed{
			Name: fields["Package"], Version: fields["Version"], Arch: fields["Architecture"], Source: fields["Source"],
		})
	}
	slices.SortFunc(packages, func(a, b Installed) int { return strings.Compare(a.Name, b.Name) })
	return packages
}
