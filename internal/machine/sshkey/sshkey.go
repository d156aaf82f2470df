// Package sshkey is the SSH key of a cluster: the one that lets the platform, and nobody else, into the machines that it
// makes for the cluster. It is kept in a Secret of the cluster's own namespace, which the API encrypts at rest. A key
// that is replaced stays there beside the new one until all machines know that.
package sshkey

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// SecretName is the name of the Secret.
const SecretName = "ssh"

// What the Secret holds: private keys in PEM, and the public key as in authorized_keys.
const (
	privateKey  = corev1.SSHAuthPrivateKey
	publicKey   = "ssh-publickey"
	previousKey = "ssh-privatekey-previous"
)

// Ensure gives the Secret's data a key, unless they have one. The comment names it to people.
func Ensure(data map[string][]byte, comment string) error {
	if len(data[privateKey]) > 0 {
		return nil
	}
	return put(data, comment)
}

// Replace gives the data a new key, and keeps the one before it. Where one is being replaced already, and is not
// forgotten yet, that is not done: machines may know only the older one.
func Replace(data map[string][]byte, comment string) error {
	if Replaced(data) {
		return errors.New("replace SSH key: not all machines know the present one yet")
	}
	old := data[privateKey]
	if err := put(data, comment); err != nil {
		return err
	}
	if len(old) > 0 {
		data[previousKey] = old
	}
	return nil
}

func put(data map[string][]byte, comment string) error {
	private, err := remote.GenerateKey(comment)
	if err != nil {
		return err
	}
	public, err := Public(private)
	if err != nil {
		return err
	}
	data[privateKey], data[publicKey] = private, []byte(public+"\n")
	return nil
}

// Replaced tells whether a key before the present one is still kept.
func Replaced(data map[string][]byte) bool { return len(data[previousKey]) > 0 }

// Forget removes the key before the present one.
func Forget(data map[string][]byte) { delete(data, previousKey) }

// Current is the key, and Previous the one before it.
func Current(data map[string][]byte) (remote.Key, error) { return read(data, privateKey) }

// Previous is the key before the present one.
func Previous(data map[string][]byte) (remote.Key, error) { return read(data, previousKey) }

func read(data map[string][]byte, name string) (remote.Key, error) {
	key, err := remote.ParseKey(data[name])
	if err != nil {
		return remote.Key{}, fmt.Errorf("read %s of the cluster: %w", name, err)
	}
	return key, nil
}

// Public is the public part of a private key, as in authorized_keys and known_hosts.
func Public(private []byte) (string, error) {
	key, err := remote.ParseKey(private)
	if err != nil {
		return "", err
	}
	return key.Authorized(), nil
}
