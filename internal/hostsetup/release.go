package hostsetup

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Ready looks at the host, and makes it one that any distribution can work on: modules, sysctls, swap. Nothing is changed
// on a host that will not do.
func (i *Installer) Ready(ctx context.Context, host Host, version string, role Role, progress func(string)) error {
	_, err := i.ready(ctx, host, version, role, progress)
	return err
}

func (i *Installer) ready(ctx context.Context, host Host, version string, role Role, progress func(string)) (survey, error) {
	progress("look at the host")
	found, err := i.preflight(ctx, host, role)
	if err != nil {
		return found, err
	}
	if err := i.keep(ctx, host, found); err != nil {
		return found, err
	}
	if _, err := i.layFiles(ctx, host.Client, StepSystem, map[string][]byte{MarkFile: mark(version)}); err != nil {
		return found, err
	}
	return found, i.system(ctx, host, found)
}

// LayRelease brings a part of the release to the host's ReleaseDir, so that the release there can be opened by what runs
// there: Kubernetes' program of a version, others by name, and images. What is there already is not sent again.
func (i *Installer) LayRelease(ctx context.Context, host Host, version string, programs []string, images []release.Artifact, progress func(string)) error {
	pieces, manifest, err := i.programs(version, programs)
	if err != nil {
		return err
	}
	manifest.Artifacts = append(manifest.Artifacts, images...)
	pieces = append(pieces, i.imagePieces(images)...)
	if _, err := i.lay(ctx, host.Client, StepPrograms, pieces, progress); err != nil {
		return err
	}
	return i.layManifest(ctx, host.Client, manifest)
}

// mark says that a host is one of ours.
func mark(version string) []byte { return []byte(version + "\n") }

// layManifest lists what a host's release holds.
func (i *Installer) layManifest(ctx context.Context, host *remote.Client, manifest *release.Manifest) error {
	content, err := manifestFile(manifest)
	if err != nil {
		return err
	}
	_, err = i.layFiles(ctx, host, StepPrograms, map[string][]byte{path.Join(ReleaseDir, release.ManifestName): content})
	return err
}

func manifestFile(manifest *release.Manifest) ([]byte, error) {
	content, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the manifest of a host's release: %w", err)
	}
	return content, nil
}

// imagePieces are the files that images consist of, each once.
func (i *Installer) imagePieces(images []release.Artifact) []piece {
	var pieces []piece
	seen := map[string]bool{}
	for _, image := range images {
		for _, blob := range append([]release.Blob{{SHA256: image.SHA256, Size: image.Size}}, image.Blobs...) {
			if seen[blob.SHA256] {
				continue
			}
			seen[blob.SHA256] = true
			pieces = append(pieces, piece{
				local: filepath.Join(i.release.Dir(), blob.Path()), path: path.Join(ReleaseDir, filepath.ToSlash(blob.Path())),
				sha256: blob.SHA256, size: blob.Size, mode: 0o644,
			})
		}
	}
	return pieces
}

// LayProgram brings a file of the release directory to a place on the host, where it has to have a checksum. Without the
// file it has to be there already.
func (i *Installer) LayProgram(ctx context.Context, host Host, file, target, sum string, progress func(string)) error {
	if file != "" {
		_, err := i.lay(ctx, host.Client, StepPrograms, []piece{{local: filepath.Join(i.release.Dir(), file), path: target, sha256: sum, mode: 0o755}}, progress)
		return err
	}
	have, err := host.Client.RunIdempotent(ctx, remote.Command{Step: StepPrograms, Args: []string{"sha256sum", "--", target}})
	if _, answered := remote.ExitCode(err); err != nil && !answered {
		return err
	}
	if len(have.Stdout) < len(sum) || have.Stdout[:len(sum)] != sum {
		return fmt.Errorf("host %s: %s: %s is not there with the checksum %s: lay it there, or correct its path and checksum", host, StepPrograms, target, sum)
	}
	return nil
}

// Sum is the checksum of one of the project's own programs.
func (i *Installer) Sum(program string) (string, error) {
	own, err := i.own(program)
	return own.sha256, err
}

//go:embed script/restore.sh
var restoreScript string

// Restore undoes what Ready has changed. Whoever cleans a host calls it last: from then on it is nobody's.
func Restore(ctx context.Context, host *remote.Client, step string) error {
	_, err := host.RunIdempotent(ctx, remote.Command{Step: step, Args: []string{"sh", "-c", restoreScript, "sh", MarkFile}})
	return err
}
