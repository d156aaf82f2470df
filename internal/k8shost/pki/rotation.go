package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Encryption is the keys that Secrets are encrypted with: the first writes, all
// of them read. It never changes; its methods return what is to follow. Names
// are key1, key2 and so on, ever higher: the stored objects name the key that
// they need.
type Encryption struct{ keys []encryptionKey }

// Stage is how far a rotation is: the keys' order and number tell, so nothing
// else has to be remembered across a crash.
type Stage string

// The stages.
const (
	// Settled is one key, which everything is encrypted with.
	Settled Stage = "Settled"
	// Adding is a new key that no server writes with, until all can read it.
	Adding Stage = "Adding"
	// Rewriting is a new key that servers write with, and older ones that some
	// of the stored objects may still need.
	Rewriting Stage = "Rewriting"
)

// ReadEncryption reads the keys of a configuration file.
func ReadEncryption(path string) (Encryption, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Encryption{}, fmt.Errorf("read encryption keys: %w", err)
	}
	e, err := parseEncryption(data)
	if err != nil {
		return Encryption{}, fmt.Errorf("read encryption keys from %s: %w", path, err)
	}
	return e, nil
}

// WriteEncryption replaces the keys of a configuration file.
func WriteEncryption(path string, e Encryption) error {
	data, err := e.marshal()
	if err != nil {
		return err
	}
	if err := (file{path: path, data: data, mode: secretMode}).write(); err != nil {
		return fmt.Errorf("write encryption keys: %w", err)
	}
	return nil
}

// Names are the keys' names, the one that writes first.
func (e Encryption) Names() []string {
	names := make([]string, 0, len(e.keys))
	for _, key := range e.keys {
		names = append(names, key.Name)
	}
	return names
}

// String keeps the keys out of logs and error messages.
func (e Encryption) String() string { return strings.Join(e.Names(), " ") }

// GoString keeps the keys out of %#v as well.
func (e Encryption) GoString() string { return e.String() }

// Stage is how far a rotation is.
func (e Encryption) Stage() Stage {
	switch {
	case len(e.keys) == 1:
		return Settled
	case e.newest() == 0:
		return Rewriting
	default:
		return Adding
	}
}

// newest is the place of the key with the highest number.
func (e Encryption) newest() int {
	place := 0
	for i := range e.keys {
		if e.keys[i].number() > e.keys[place].number() {
			place = i
		}
	}
	return place
}

// number is a key's number; 0 for one that somebody named otherwise.
func (k encryptionKey) number() int {
	n, err := strconv.Atoi(strings.TrimPrefix(k.Name, "key"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Add puts a new key last: it reads.
func (e Encryption) Add() (Encryption, error) {
	secret := make([]byte, encryptionKeySize)
	if _, err := rand.Read(secret); err != nil {
		return e, fmt.Errorf("make encryption key: %w", err)
	}
	number := 1
	if len(e.keys) > 0 {
		number = e.keys[e.newest()].number() + 1
	}
	key := encryptionKey{Name: "key" + strconv.Itoa(number), Secret: base64.StdEncoding.EncodeToString(secret)}
	return Encryption{append(slices.Clone(e.keys), key)}, nil
}

// Promote puts the newest key first: it writes.
func (e Encryption) Promote() Encryption {
	place := e.newest()
	keys := []encryptionKey{e.keys[place]}
	return Encryption{append(keys, slices.Delete(slices.Clone(e.keys), place, place+1)...)}
}

// Settle drops all keys but the first.
func (e Encryption) Settle() Encryption { return Encryption{e.keys[:1:1]} }

// Merge is what a server with these keys goes on with when the cluster has
// others: the cluster's, and, for reading, those of its own that the cluster
// cannot have dropped because it has never had them. They are left after an
// older snapshot was restored, and may be what some Secret needs.
func (e Encryption) Merge(cluster Encryption) Encryption {
	merged := Encryption{slices.Clone(cluster.keys)}
	highest := cluster.keys[cluster.newest()].number()
	for _, key := range e.keys {
		known := slices.ContainsFunc(cluster.keys, func(other encryptionKey) bool { return other.Name == key.Name })
		if !known && (key.number() == 0 || key.number() > highest) {
			merged.keys = append(merged.keys, key)
		}
	}
	return merged
}

// Hash is how the API server calls a file of these keys in its metrics.
func (e Encryption) Hash() string {
	data, err := e.marshal()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func (e Encryption) marshal() ([]byte, error) {
	data, err := yaml.Marshal(encryptionConfiguration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       encryptionKind,
		Resources: []encryptedResources{{
			Resources: []string{"secrets"},
			Providers: []encryptionProvider{
				{Secretbox: &secretboxProvider{Keys: e.keys}},
				{Identity: &struct{}{}},
			},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("make encryption configuration: %w", err)
	}
	return data, nil
}

// parseEncryption reads a configuration of exactly the shape written here: it can
// be written again without losing anything.
func parseEncryption(data []byte) (Encryption, error) {
	if err := checkEncryption(data); err != nil {
		return Encryption{}, err
	}
	byHand := errors.New("the encryption configuration was changed by hand: change the keys by hand too")
	var config encryptionConfiguration
	if err := yaml.UnmarshalStrict(data, &config); err != nil || len(config.Resources) != 1 {
		return Encryption{}, byHand
	}
	r := config.Resources[0]
	if !slices.Equal(r.Resources, []string{"secrets"}) || len(r.Providers) != 2 ||
		r.Providers[0].Secretbox == nil || len(r.Providers[0].Secretbox.Keys) == 0 || r.Providers[1].Identity == nil {
		return Encryption{}, byHand
	}
	return Encryption{r.Providers[0].Secretbox.Keys}, nil
}

// Encryption is the bundle's keys for Secrets.
func (b *Bundle) Encryption() (Encryption, error) { return parseEncryption(b.files[encryptionConfig]) }

// WithEncryption is the same bundle with other keys for Secrets.
func (b *Bundle) WithEncryption(e Encryption) (*Bundle, error) {
	data, err := e.marshal()
	if err != nil {
		return nil, err
	}
	changed := &Bundle{files: map[string][]byte{}}
	for name, content := range b.files {
		changed.files[name] = content
	}
	changed.files[encryptionConfig] = data
	return changed, nil
}

// AdoptEncryption brings the store in dir to the keys of the cluster's bundle,
// and says whether that changed anything. A configuration that was changed by
// hand, here or there, is left alone: whoever did that takes care of it.
func AdoptEncryption(dir string, cluster *Bundle) (bool, error) {
	path := filepath.Join(dir, encryptionConfig)
	own, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("adopt encryption keys: %w", err)
	}
	if bytes.Equal(own, cluster.files[encryptionConfig]) {
		return false, nil
	}
	ours, err := parseEncryption(own)
	if err != nil {
		return false, nil
	}
	theirs, err := cluster.Encryption()
	if err != nil {
		return false, nil
	}
	merged := ours.Merge(theirs)
	if merged.Hash() == ours.Hash() {
		return false, nil
	}
	return true, WriteEncryption(path, merged)
}
