package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key proves who logs in. It is kept in memory only.
type Key struct {
	signer ssh.Signer
}

// ParseKey reads a private key in PEM. One with a passphrase cannot be used: nobody is there to type it.
func ParseKey(content []byte) (Key, error) {
	signer, err := ssh.ParsePrivateKey(content)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return Key{}, errors.New("read private key: it has a passphrase; store it without one (ssh-keygen -p)")
	}
	if err != nil {
		return Key{}, fmt.Errorf("read private key: %w", err) // what is in the key is in none of these errors
	}
	return Key{signer: signer}, nil
}

// GenerateKey makes a new private key, in PEM.
func GenerateKey(comment string) ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make private key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, fmt.Errorf("make private key: %w", err)
	}
	return pem.EncodeToMemory(block), nil
}

// Authorized is the public key, as in authorized_keys.
func (k Key) Authorized() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.signer.PublicKey())))
}

// fingerprint names the key where it must not be shown.
func (k Key) fingerprint() string {
	if k.signer == nil {
		return ""
	}
	return ssh.FingerprintSHA256(k.signer.PublicKey())
}

// Fingerprint names a public key, as in authorized_keys or known_hosts without the host, in as few letters as it takes.
func Fingerprint(public string) (string, error) {
	key, err := parseHostKey(public)
	if err != nil {
		return "", err
	}
	return ssh.FingerprintSHA256(key), nil
}

// parseHostKey reads a host's public key, as in known_hosts without the host.
func parseHostKey(text string) (ssh.PublicKey, error) {
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("its host key cannot be read; it looks like ssh-ed25519 AAAA…, as ssh-keyscan prints it after the host")
	}
	return key, nil
}

// algorithms are the ways in which a host can prove that it has a key. Without them it might show another of its keys.
func algorithms(key ssh.PublicKey) []string {
	switch {
	case key == nil:
		return []string{
			ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
			ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
		}
	case key.Type() == ssh.KeyAlgoRSA:
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	default:
		return []string{key.Type()}
	}
}
