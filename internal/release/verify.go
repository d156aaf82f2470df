package release

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
	"path/filepath"
)

// Verify reads every file of the release and compares size and SHA-256 with the manifest. All differences are in the
// error; the number of files read is returned.
func (c *Catalogue) Verify(ctx context.Context) (int, error) {
	wanted := make(map[string]Blob)
	for _, a := range c.manifest.Artifacts {
		wanted[a.Path] = Blob{SHA256: a.SHA256, Size: a.Size}
		for _, blob := range a.Blobs {
			wanted[blob.Path()] = blob
		}
	}
	var errs []error
	for path, want := range wanted {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := verifyFile(filepath.Join(c.dir, path), want); err != nil {
			errs = append(errs, err)
		}
	}
	return len(wanted), errors.Join(errs...)
}

func verifyFile(path string, want Blob) error {
	size, sum, err := HashFile(path)
	if err != nil {
		return err
	}
	if size != want.Size || sum != want.SHA256 {
		return fmt.Errorf("%s is damaged: it has %d bytes with SHA-256 %s, the manifest says %d and %s", path, size, sum, want.Size, want.SHA256)
	}
	return nil
}

// HashFile tells a file's size and SHA-256.
func HashFile(path string) (int64, string, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", fmt.Errorf("hash file: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return 0, "", fmt.Errorf("hash file %s: %w", path, err)
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// Write puts the manifest into the release directory, replacing the one that is there as a whole.
func (m *Manifest) Write(dir string) error { return m.write(filepath.Join(dir, ManifestName)) }

// WriteOwn is Write for the list of the project's own images.
func (m *Manifest) WriteOwn(dir string) error { return m.write(filepath.Join(dir, OwnManifestName)) }

func (m *Manifest) write(path string) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("write release manifest: %w", err)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write release manifest: %w", err)
	}
	return WriteIfChanged(path, append(data, '\n'))
}

// WriteIfChanged replaces a small file as a whole, and only if its content differs, so that an unchanged release keeps
// its time stamps.
func WriteIfChanged(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // gone once it is renamed
	_, writeErr := temporary.Write(data)
	if err := errors.Join(writeErr, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
