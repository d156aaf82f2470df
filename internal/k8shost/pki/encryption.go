package pki

import (
	"encoding/base64"
	"errors"
	"fmt"

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
	keys, err := Encryption{}.Add()
	if err != nil {
		return err
	}
	if data, err = keys.marshal(); err != nil {
		return err
	}
	p.add(path, data, secretMode)
	p.renewals = append(p.renewals, Renewal{Name: encryptionConfig, Reason: "missing"})
	return nil
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
