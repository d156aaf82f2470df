package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

const (
	certSuffix = ".crt"
	keySuffix  = ".key"

	dirMode    fs.FileMode = 0o700
	secretMode fs.FileMode = 0o600
	publicMode fs.FileMode = 0o644
)

// file is a file that is about to be written.
type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// write replaces the file atomically and makes the new name durable before it
// returns, so that files written in order also survive a power cut in order.
func (f file) write() error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	pending, err := renameio.NewPendingFile(f.path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(f.mode))
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if _, err := pending.Write(f.data); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), pending.Cleanup())
	}
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), pending.Cleanup())
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// writeChanged writes the file unless it already has that content and mode.
func (f file) writeChanged() (bool, error) {
	have, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case bytes.Equal(have, f.data):
		info, err := os.Stat(f.path)
		if err != nil {
			return false, err
		}
		if info.Mode().Perm() == f.mode {
			return false, nil
		}
	}
	return true, f.write()
}

// readOptional returns nil for a file that does not exist.
func readOptional(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}
