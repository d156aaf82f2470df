package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"plasmacloud.io/plasmacloud/internal/release"
)

// startEmbedded starts the management cluster with k8shost, and gives it the daemon's image.
func (in *installation) startEmbedded(ctx context.Context) error {
	images := filepath.Join(in.target.DataDir, "agent", "images")
	if err := os.MkdirAll(images, 0o700); err != nil {
		return err
	}
	if err := copyChanged(filepath.Join(in.release.Dir(), release.ImagesDir, imageArchive), filepath.Join(images, imageArchive)); err != nil {
		return fmt.Errorf("bring along the daemon's image: %w", err)
	}
	return in.k8shost(ctx, "up", "--data-dir", in.target.DataDir)
}

func (in *installation) stopEmbedded(ctx context.Context, purge bool) error {
	args := []string{"down", "--data-dir", in.target.DataDir}
	if purge {
		args = append(args, "--purge")
	}
	return in.k8shost(ctx, args...)
}

// k8shost runs the launcher and reports what it says.
func (in *installation) k8shost(ctx context.Context, args ...string) error {
	binary, err := in.release.Binary("k8shost")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "PLASMACLOUD_RELEASE="+in.release.Dir())
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	said := make(chan string, 1)
	go func() {
		var last string
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			last = lines.Text()
			in.progress.Report(last)
		}
		_, _ = io.Copy(io.Discard, reader) // a line too long must not block it
		said <- last
	}()
	err = cmd.Run()
	_ = writer.Close()
	if last := <-said; err != nil {
		return fmt.Errorf("k8shost %s: %w: %s", args[0], err, last)
	}
	return nil
}

// copyChanged copies a file unless the copy is as new and as long: what was copied once need not be imported again.
func copyChanged(from, to string) (err error) {
	source, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: build it with `make build`", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	have, err := source.Stat()
	if err != nil {
		return err
	}
	if copied, err := os.Stat(to); err == nil && copied.Size() == have.Size() && copied.ModTime().Equal(have.ModTime()) {
		return nil
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }()
	if _, err := io.Copy(part, source); err != nil {
		return errors.Join(err, part.Close())
	}
	if err := errors.Join(part.Close(), os.Chtimes(part.Name(), have.ModTime(), have.ModTime())); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
