package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
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

// write replaces the file. The new name is durable before it returns, so files
// written in order also survive a power cut in order.
func (f file) write() error {
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return atomicfile.Write(f.path, f.data, f.mode)
}

// readOptional returns nil for a file that does not exist, and only then.
func readOptional(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
