package hostsetup

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// piece is a file of the release that is to be on a host.
type piece struct {
	local, path, sha256 string
	size                int64
	mode                fs.FileMode
}

// smallPiece is what goes to the host together with others.
const smallPiece = 32 << 10

// kubePrograms are the names by which hosts call Kubernetes' one program.
var kubePrograms = []string{"kubelet", "kubeadm", "kubectl"}

// LayPrograms brings Kubernetes' program of a version, and others by name, to the host's ReleaseDir, and links them into
// BinDir. What is there already is not sent again. It returns the names of the programs that have changed.
func (i *Installer) LayPrograms(ctx context.Context, host Host, version string, names []string, progress func(string)) ([]string, error) {
	pieces, manifest, err := i.programs(version, names)
	if err != nil {
		return nil, err
	}
	changed, err := i.lay(ctx, host.Client, StepPrograms, pieces, progress)
	if err != nil {
		return nil, err
	}
	if err := i.layManifest(ctx, host.Client, manifest); err != nil {
		return nil, err
	}
	_, err = i.script(ctx, host.Client, StepPrograms, linkScript, nil, links(pieces)...)
	return changed, err
}

//go:embed script/link.sh
var linkScript string

// links are the arguments of linkScript that make programs known by their names.
func links(pieces []piece) []string {
	args := []string{BinDir, CNIBinDir}
	for _, piece := range pieces {
		names := []string{path.Base(piece.path)}
		if names[0] == "kube" {
			names = append(names, kubePrograms...)
		}
		for _, name := range names {
			args = append(args, name, piece.path)
		}
	}
	return append(args, "--")
}

// own is a program of the project's own, of which no manifest knows.
func (i *Installer) own(name string) (piece, error) {
	local, err := i.release.Binary(name)
	if err != nil {
		return piece{}, err
	}
	sum, size, err := i.sum(local)
	return piece{local: local, path: path.Join(ReleaseDir, "bin", name), sha256: sum, size: size, mode: 0o755}, err
}

// programs are the pieces that the given programs consist of, and the manifest that lists them.
func (i *Installer) programs(version string, names []string) ([]piece, *release.Manifest, error) {
	manifest := &release.Manifest{Schema: release.Schema}
	var pieces []piece
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	for _, artifact := range i.release.Artifacts() {
		kube := artifact.Kind == release.KindKube && artifact.Kubernetes == version
		if !kube && (artifact.Kind != release.KindBinary || !wanted[artifact.Name]) {
			continue
		}
		delete(wanted, artifact.Name)
		manifest.Artifacts = append(manifest.Artifacts, artifact)
		pieces = append(pieces, piece{
			local: filepath.Join(i.release.Dir(), artifact.Path), path: path.Join(ReleaseDir, filepath.ToSlash(artifact.Path)),
			sha256: artifact.SHA256, size: artifact.Size, mode: 0o755,
		})
	}
	if _, err := i.release.Kube(version); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		own, err := i.own(name)
		if err != nil {
			return nil, nil, err
		}
		pieces = append(pieces, own)
	}
	return pieces, manifest, nil
}

// lay brings those pieces that are not there, and returns the base names of those that are not small. One look tells for
// all of them.
func (i *Installer) lay(ctx context.Context, host *remote.Client, step string, pieces []piece, progress func(string)) ([]string, error) {
	args := []string{"sh", "-c", `sha256sum -- "$@" 2>/dev/null || :`, "sh"}
	for _, piece := range pieces {
		args = append(args, piece.path)
	}
	result, err := host.RunIdempotent(ctx, remote.Command{Step: step, Args: args})
	if err != nil {
		return nil, err
	}
	have := map[string]string{}
	for line := range strings.Lines(result.Stdout) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			have[name] = sum
		}
	}
	var missing []piece
	small := map[string][]byte{}
	for _, piece := range pieces {
		switch {
		case have[piece.path] == piece.sha256:
		case piece.size < smallPiece && piece.mode == 0o644:
			if small[piece.path], err = os.ReadFile(piece.local); err != nil {
				return nil, fmt.Errorf("read release: %w", err)
			}
		default:
			missing = append(missing, piece)
		}
	}
	if _, err := i.layFiles(ctx, host, step, small); err != nil {
		return nil, err
	}
	return i.send(ctx, host, step, missing, progress)
}

// send uploads pieces, a few at a time, and returns their base names.
func (i *Installer) send(ctx context.Context, host *remote.Client, step string, pieces []piece, progress func(string)) ([]string, error) {
	uploads, ctx := errgroup.WithContext(ctx)
	uploads.SetLimit(3)
	names := make([]string, len(pieces))
	for n, piece := range pieces {
		names[n] = path.Base(piece.path)
		uploads.Go(func() error {
			_, err := host.UploadFile(ctx, piece.local, remote.File{
				Step: step, Path: piece.path, Mode: piece.mode, SHA256: piece.sha256, Progress: percent(progress, label(names[n])),
			})
			return err
		})
	}
	return names, uploads.Wait()
}

// label is what people see of a file's name.
func label(name string) string {
	if len(name) == sha256.Size*2 {
		return "image layer " + name[:12]
	}
	return name
}

// checksum is that of a local file as it was at a time.
type checksum struct {
	modified time.Time
	size     int64
	sum      string
}

// sum is the checksum of a local file; it is computed once, for as long as the file stays the same.
func (i *Installer) sum(local string) (string, int64, error) {
	info, err := os.Stat(local)
	if err != nil {
		return "", 0, fmt.Errorf("read program: %w", err)
	}
	i.mu.Lock()
	known, ok := i.sums[local]
	i.mu.Unlock()
	if ok && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.sum, known.size, nil
	}
	size, sum, err := release.HashFile(local)
	if err != nil {
		return "", 0, fmt.Errorf("read program: %w", err)
	}
	known = checksum{modified: info.ModTime(), size: size, sum: sum}
	i.mu.Lock()
	i.sums[local] = known
	i.mu.Unlock()
	return known.sum, known.size, nil
}
