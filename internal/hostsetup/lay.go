package hostsetup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// piece is a file of the release that is to be on a host.
type piece struct {
	local, path, sha256 string
	size                int64
	mode                fs.FileMode
}

// kubePrograms are the names by which hosts call Kubernetes' one program.
var kubePrograms = []string{"kubelet", "kubeadm", "kubectl"}

// LayPrograms brings Kubernetes' program of a version, and others by name, to the host's ReleaseDir, so that the release
// there can be opened, and links them into BinDir. What is there already is not sent again. It returns the names of the
// programs that have changed.
func (i *Installer) LayPrograms(ctx context.Context, host Host, version string, names []string, progress func(string)) ([]string, error) {
	pieces, manifest, err := i.programs(version, names)
	if err != nil {
		return nil, err
	}
	changed, err := i.lay(ctx, host.Client, StepPrograms, pieces, progress)
	if err != nil {
		return nil, err
	}
	if err := layManifest(ctx, host.Client, manifest); err != nil {
		return nil, err
	}
	links := map[string]string{}
	for _, piece := range pieces {
		links[path.Base(piece.path)] = piece.path
	}
	for _, name := range kubePrograms {
		links[name] = links["kube"]
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(links)) {
		args = append(args, name, links[name])
	}
	_, err = i.script(ctx, host.Client, StepPrograms, linkScript, nil, append([]string{BinDir, CNIBinDir}, args...)...)
	return changed, err
}

// LayOwn brings one of the project's own programs to the host's ReleaseDir, and tells whether it has changed.
func (i *Installer) LayOwn(ctx context.Context, host Host, name string, progress func(string)) (changed bool, err error) {
	own, err := i.own(name)
	if err != nil {
		return false, err
	}
	laid, err := i.lay(ctx, host.Client, StepPrograms, []piece{own}, progress)
	return len(laid) > 0, err
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

// lay uploads those pieces that are not there, and returns their base names. One look tells for all of them.
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
	var changed []string
	for _, piece := range pieces {
		if have[piece.path] == piece.sha256 {
			continue
		}
		name := path.Base(piece.path)
		if _, err := host.UploadFile(ctx, piece.local, remote.File{
			Step: step, Path: piece.path, Mode: piece.mode, SHA256: piece.sha256, Progress: percent(progress, label(name)),
		}); err != nil {
			return nil, err
		}
		changed = append(changed, name)
	}
	return changed, nil
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
