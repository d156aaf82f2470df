package pki

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	encryptionKind = "EncryptionConfiguration"
	// encryptionKeySize is what the secretbox provider takes.
	encryptionKeySize = 32
)

// The part of apiserver.config.k8s.io/v1 that is used here. The provider is
// secretbox: authenticated, and with a nonce long enough to be random, which
// aesgcm lacks (its keys wear out) and aescbc (it is not authenticated).
type encryptionConfiguration struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Resources  []encryptedResources `json:"resources"`
}

type encryptedResources struct {
	Resources []string             `json:"resources"`
	Providers []encryptionProvider `json:"providers"`
}

type encryptionProvider struct {
	Secretbox *secretboxProvider `json:"secretbox,omitempty"`
	// Identity reads what was stored before it was encrypted; being last, it
	// never writes.
	Identity *struct{} `json:"identity,omitempty"`
}

type secretboxProvider struct {
	Keys []encryptionKey `json:"keys"`
}

type encryptionKey struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// encryption makes or checks the encryption configuration.
func (p *plan) encryption() error {
	path := p.store.EncryptionConfigPath()
	data, err := readOptional(path)
	if err != nil {
		return fmt.Errorf("read encryption configuration: %w", err)
	}
	if data != nil {
		if err := checkEncryption(data); err != nil {
			return p.broken(path, err.Error())
		}
		return nil
	}
	if !p.fresh {
		return p.broken(path, "it is missing, and without it the stored Secrets cannot be read")
	}
	key, err := newEncryptionKey(nil)
	if err != nil {
		return fmt.Errorf("make encryption key: %w", err)
	}
	data, err = yaml.Marshal(encryptionConfiguration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       encryptionKind,
		Resources: []encryptedResources{{
			Resources: []string{"secrets"},
			Providers: []encryptionProvider{
				{Secretbox: &secretboxProvider{Keys: []encryptionKey{key}}},
				{Identity: &struct{}{}},
			},
		}},
	})
	if err != nil {
		return fmt.Errorf("make encryption configuration: %w", err)
	}
	p.add(path, data, secretMode)
	p.renewals = append(p.renewals, Renewal{Name: encryptionConfig, Reason: "missing"})
	return nil
}

// RotateEncryptionKey puts a new key before the others of the configuration
// file and returns its name. What is written from the API server's next start on
// is encrypted with it; the old keys stay, for what they have encrypted. In a
// cluster of several servers the others need the new file before this one
// starts to write with it.
func RotateEncryptionKey(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("rotate encryption key: %w", err)
	}
	config, err := parseEncryption(data)
	if err != nil {
		return "", fmt.Errorf("rotate encryption key in %s: %w", path, err)
	}
	box := config.Resources[0].Providers[0].Secretbox
	key, err := newEncryptionKey(box.Keys)
	if err != nil {
		return "", fmt.Errorf("rotate encryption key: %w", err)
	}
	box.Keys = slices.Insert(box.Keys, 0, key)
	if data, err = yaml.Marshal(config); err != nil {
		return "", fmt.Errorf("rotate encryption key: %w", err)
	}
	if err := (file{path: path, data: data, mode: secretMode}).write(); err != nil {
		return "", fmt.Errorf("rotate encryption key: %w", err)
	}
	return key.Name, nil
}

// checkEncryption accepts what the API server would: an administrator may have
// added resources or providers. Errors never quote the file: it holds the keys.
func checkEncryption(data []byte) error {
	var config encryptionConfiguration
	if err := yaml.Unmarshal(data, &config); err != nil || config.Kind != encryptionKind || len(config.Resources) == 0 {
		return errors.New("it is not an encryption configuration")
	}
	for _, resources := range config.Resources {
		if len(resources.Providers) == 0 {
			return errors.New("the encryption configuration names resources without a provider")
		}
		for _, provider := range resources.Providers {
			if err := provider.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p encryptionProvider) check() error {
	if p.Secretbox == nil {
		return nil
	}
	for _, key := range p.Secretbox.Keys {
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil || len(secret) != encryptionKeySize {
			return fmt.Errorf("encryption key %q is not %d bytes in base64", key.Name, encryptionKeySize)
		}
	}
	return nil
}

// parseEncryption reads a configuration of exactly the shape written here: it can
// be written again without losing anything.
func parseEncryption(data []byte) (*encryptionConfiguration, error) {
	var config encryptionConfiguration
	if err := checkEncryption(data); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, &config); err != nil || config.Resources[0].Providers[0].Secretbox == nil {
		return nil, errors.New("the encryption configuration was changed by hand: add the key by hand too")
	}
	return &config, nil
}

// newEncryptionKey makes a key with a name that none of the others has: the
// stored objects name the key they need.
func newEncryptionKey(others []encryptionKey) (encryptionKey, error) {
	secret := make([]byte, encryptionKeySize)
	if _, err := rand.Read(secret); err != nil {
		return encryptionKey{}, err
	}
	highest := 0
	for _, other := range others {
		if n, err := strconv.Atoi(strings.TrimPrefix(other.Name, "key")); err == nil {
			highest = max(highest, n)
		}
	}
	return encryptionKey{
		Name:   "key" + strconv.Itoa(highest+1),
		Secret: base64.StdEncoding.EncodeToString(secret),
	}, nil
}
