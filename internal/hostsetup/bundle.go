package hostsetup

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

//go:embed script/lay.sh
var layScript string

// bundleSize bounds what goes to a host as the input of one command.
const bundleSize = 200 << 10

// Bundle is an archive of files by their names, as `tar -x` reads it on a host.
func Bundle(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name])), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack files: %w", err)
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, fmt.Errorf("pack files: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return out.Bytes(), nil
}

// layFiles lays small public files, all at once, each of them whole or not at all, and returns the paths of those that
// have changed. What is in them is not secret.
func (i *Installer) layFiles(ctx context.Context, host *remote.Client, step string, files map[string][]byte) ([]string, error) {
	var changed []string
	for len(files) > 0 {
		rest := maps.Clone(files)
		part, paths, size := map[string][]byte{}, []string{}, 0
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if size += len(files[name]) + 1024; size > bundleSize && len(part) > 0 {
				break
			}
			part[fmt.Sprintf("%d", len(paths))] = files[name]
			paths = append(paths, name)
			delete(rest, name)
		}
		bundle, err := Bundle(part)
		if err != nil {
			return nil, err
		}
		answer, err := i.script(ctx, host, step, layScript, bundle, paths...)
		if err != nil {
			return nil, err
		}
		changed = append(changed, strings.Fields(answer)...)
		files = rest
	}
	return changed, nil
}

// DiskFull says so where a command could not write; any other error it leaves as it is.
func DiskFull(host *remote.Client, step string, err error) error {
	exit, failed := errors.AsType[*remote.ExitError](err)
	if !failed || !strings.Contains(strings.Join(exit.Lines, "\n"), "No space left on device") {
		return err
	}
	return &remote.Error{
		Host: host.Host().String(), Step: step, Kind: remote.ErrDiskFull, Cause: errors.New(strings.Join(exit.Lines, " | ")),
		Remedy: "make room, or use a larger disk; the step can be tried again",
	}
}
