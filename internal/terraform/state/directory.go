package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

const recordFile = "record.json"

// Directory is a Store in a directory, for one process: a folder for each stack, readable for its owner only.
type Directory struct {
	root string
	mu   sync.Mutex // makes comparing and replacing a record one step
}

var _ Store = (*Directory)(nil)

// NewDirectory makes the directory if it is not there.
func NewDirectory(root string) (*Directory, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	return &Directory{root: root}, nil
}

func (d *Directory) path(stack, name string) string { return filepath.Join(d.root, stack, name) }

// Load implements Store. The revision is the record's content.
func (d *Directory) Load(_ context.Context, stack string) (*Record, error) {
	data, err := read(d.path(stack, recordFile))
	if err != nil {
		return nil, err
	}
	record := &Record{Revision: revision(data)}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("read record of %s: %w", stack, err)
	}
	return record, nil
}

// Save implements Store.
func (d *Directory) Save(_ context.Context, stack string, record *Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, err := read(d.path(stack, recordFile))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if errors.Is(err, ErrNotFound) != (record.Revision == "") || err == nil && revision(old) != record.Revision {
		return ErrConflict
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := d.write(stack, recordFile, data); err != nil {
		return err
	}
	record.Revision = revision(data)
	return nil
}

// Remove implements Store.
func (d *Directory) Remove(_ context.Context, stack string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove(stack, recordFile)
}

// ReadContent implements Store.
func (d *Directory) ReadContent(_ context.Context, stack, name string) ([]byte, error) {
	return read(d.path(stack, name))
}

// WriteContent implements Store.
func (d *Directory) WriteContent(_ context.Context, stack, name string, data []byte) error {
	return d.write(stack, name, data)
}

// RemoveContent implements Store.
func (d *Directory) RemoveContent(_ context.Context, stack, name string) error {
	return d.remove(stack, name)
}

func (d *Directory) write(stack, name string, data []byte) error {
	if err := os.MkdirAll(filepath.Join(d.root, stack), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(d.path(stack, name), data, 0o600)
}

func (d *Directory) remove(stack, name string) error {
	if err := os.Remove(d.path(stack, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	os.Remove(filepath.Join(d.root, stack)) //nolint:errcheck // only succeeds, and should, if it is empty
	return nil
}

func read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return data, err
}

func revision(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
