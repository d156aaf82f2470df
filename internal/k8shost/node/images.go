package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/release"
)

// ImportImages returns the part that gives containerd the images a node brings along: the release's own, and the
// archives in the data directory's agent/images. What was imported once is not imported again. It waits for containerd,
// and may be started with it.
func (n *Node) ImportImages() component.Component {
	return component.NewRoutine("images", n.Log, func(ctx context.Context) error {
		if err := component.Poll(ctx, n.containerdAnswers); err != nil {
			return err
		}
		done, err := n.importedImages()
		if err != nil {
			return err
		}
		if err := n.importReleaseImages(ctx, done); err != nil {
			return err
		}
		return n.importArchives(ctx, done)
	}, nil)
}

// imported maps the name of a source of images to what it held when it was imported.
type imported map[string]string

// importedFile lies in containerd's own directory: whoever removes the images removes the memory of them.
func (n *Node) importedFile() string { return filepath.Join(n.Dir.Containerd(), "imported.json") }

func (n *Node) importedImages() (imported, error) {
	done := imported{}
	content, err := os.ReadFile(n.importedFile())
	if errors.Is(err, os.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &done); err != nil {
		n.Log.Warn("cannot read which images were imported; importing them again", "error", err)
		return imported{}, nil
	}
	return done, nil
}

func (n *Node) record(done imported, source, state string) error {
	done[source] = state
	content, err := json.MarshalIndent(done, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(n.importedFile(), content, 0o600)
}

// importReleaseImages imports the images of all Kubernetes versions in the release: a node that is upgraded after its
// servers has to run the DNS that they ask for. Versions share their layers, so that the others cost nothing.
func (n *Node) importReleaseImages(ctx context.Context, done imported) error {
	var images []release.Artifact
	for _, version := range n.Release.Versions() {
		images = append(images, n.Release.Images(version)...)
	}
	var contents []string
	for _, image := range images {
		contents = append(contents, image.SHA256+" "+strings.Join(image.Refs, " "))
	}
	sort.Strings(contents)
	sum := sha256.Sum256([]byte(strings.Join(contents, "\n")))
	const source = "release"
	state := hex.EncodeToString(sum[:])
	if done[source] == state {
		return nil
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(n.Release.Export(writer, release.Refs(images...)...)) }()
	defer func() { _ = reader.Close() }()
	if err := n.importStream(ctx, reader); err != nil {
		return fmt.Errorf("import the release's images: %w", err)
	}
	return n.record(done, source, state)
}

// importArchives imports what an administrator, or an installer, laid into agent/images. One bad archive is
// reported and does not keep the node from starting.
func (n *Node) importArchives(ctx context.Context, done imported) error {
	entries, err := os.ReadDir(n.Dir.Images())
	if err != nil {
		return fmt.Errorf("list image archives: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".tar") {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		state := fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
		if done[entry.Name()] == state {
			continue
		}
		if err := n.importFile(ctx, filepath.Join(n.Dir.Images(), entry.Name())); err != nil {
			n.Log.Error("cannot import image archive", "archive", entry.Name(), "error", err)
			continue
		}
		n.Log.Info("image archive imported", "archive", entry.Name())
		if err := n.record(done, entry.Name(), state); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) importFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return n.importStream(ctx, file)
}

func (n *Node) importStream(ctx context.Context, archive io.Reader) error {
	ctr, err := n.Release.Binary("ctr")
	if err != nil {
		return err
	}
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, ctr, "--address", n.Dir.ContainerdSocket(), "--namespace", "k8s.io",
		"images", "import", "--local", "--label", release.PinnedImage, "-")
	cmd.Stdin, cmd.Stderr = archive, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}
