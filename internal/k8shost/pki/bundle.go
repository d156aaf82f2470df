package pki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bundleSchema is raised when a bundle of a new form could be misread.
const bundleSchema = 1

// Bundle is the shared material of a cluster, as a joining server needs it. It
// holds every private key of the cluster: it travels sealed and is never logged.
type Bundle struct {
	files map[string][]byte
}

// String keeps the keys out of logs and error messages.
func (b *Bundle) String() string { return fmt.Sprintf("bundle of %d files (redacted)", len(b.files)) }

// GoString keeps the keys out of %#v as well.
func (b *Bundle) GoString() string { return b.String() }

type bundleJSON struct {
	Schema int               `json:"schema"`
	Files  map[string][]byte `json:"files"`
}

// Marshal returns the bundle in its transport form, private keys included.
func (b *Bundle) Marshal() ([]byte, error) {
	return json.Marshal(bundleJSON{Schema: bundleSchema, Files: b.files})
}

// UnmarshalBundle is the reverse of Marshal; the result is complete and
// consistent.
func UnmarshalBundle(data []byte) (*Bundle, error) {
	var in bundleJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, errors.New("read bundle: it is not of the expected form")
	}
	if in.Schema != bundleSchema {
		return nil, fmt.Errorf("read bundle: its form is %d, this program knows %d: use the same release on all servers", in.Schema, bundleSchema)
	}
	b := &Bundle{files: in.Files}
	if err := b.validate(); err != nil {
		return nil, err
	}
	return b, nil
}

// Equal says whether both hold the same material.
func (b *Bundle) Equal(other *Bundle) bool {
	if len(b.files) != len(other.files) {
		return false
	}
	for name, data := range b.files {
		if !bytes.Equal(data, other.files[name]) {
			return false
		}
	}
	return true
}

// ClusterCA is the certificate of the cluster's authority, in PEM.
func (b *Bundle) ClusterCA() []byte { return bytes.Clone(b.files[string(ClusterCA)+certSuffix]) }

// sharedFiles are the files of the shared material, in the order in which they
// are written: keys before certificates, as Ensure expects after a crash.
func sharedFiles() []string {
	var names []string
	for _, a := range authorities() {
		names = append(names, string(a)+keySuffix, string(a)+certSuffix)
	}
	return append(names, serviceAccountKey, serviceAccountPublicKey, encryptionConfig)
}

// Initialized says whether all shared material is there. A server that joins
// fetches the bundle until it is.
func (s *Store) Initialized() (bool, error) {
	for _, name := range sharedFiles() {
		if _, err := os.Stat(s.path(name)); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read shared material: %w", err)
		}
	}
	return true, nil
}

// ReadBundle reads the shared material of the store in dir.
func ReadBundle(dir string) (*Bundle, error) {
	b := &Bundle{files: map[string][]byte{}}
	for _, name := range sharedFiles() {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		b.files[name] = data
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	return b, nil
}

// WriteBundle completes the store in dir with the bundle's material. A file that
// is there with other content is an error, and then nothing is written: two
// clusters would be mixed.
func WriteBundle(dir string, b *Bundle) error {
	if err := b.validate(); err != nil {
		return err
	}
	var files []file
	for _, name := range sharedFiles() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		have, err := readOptional(path)
		if err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
		if have == nil {
			files = append(files, file{path: path, data: b.files[name], mode: sharedMode(name)})
		} else if !bytes.Equal(have, b.files[name]) {
			return fmt.Errorf("write bundle: %s is there with other content: this directory belongs to another cluster; move %s away to join", path, dir)
		}
	}
	for _, f := range files {
		if err := f.write(); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
	}
	return nil
}

func sharedMode(name string) fs.FileMode {
	if strings.HasSuffix(name, certSuffix) || name == serviceAccountPublicKey {
		return publicMode
	}
	return secretMode
}

// validate checks that the bundle holds exactly the shared files and that they
// belong together.
func (b *Bundle) validate() error {
	names := sharedFiles()
	for _, name := range names {
		if len(b.files[name]) == 0 {
			return fmt.Errorf("read bundle: %s is missing", name)
		}
	}
	for name := range b.files {
		if !slices.Contains(names, name) {
			return fmt.Errorf("read bundle: unknown file %q", name)
		}
	}
	for _, a := range authorities() {
		if _, err := parseIssuer(b.files[string(a)+certSuffix], b.files[string(a)+keySuffix]); err != nil {
			return fmt.Errorf("read bundle: %s: %w", a, err)
		}
	}
	key, err := parseKey(b.files[serviceAccountKey])
	if err != nil {
		return fmt.Errorf("read bundle: %s: %w", serviceAccountKey, err)
	}
	if err := checkPublicKey(b.files[serviceAccountPublicKey], key); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	if err := checkEncryption(b.files[encryptionConfig]); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	return nil
}
