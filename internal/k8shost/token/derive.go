package token

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/scrypt"
)

// The cost of guessing a password: 32 MiB of memory and a tenth of a second for
// each try. Made passwords cannot be guessed anyway; chosen ones can.
const (
	scryptN = 1 << 15
	scryptR = 8
	scryptP = 1
)

// Bootstrap returns the bootstrap token, <id>.<secret>, with which the token
// authenticates to the API. For the cluster's own token it is derived: the id
// from the CA alone, because ids show in user names and must tell nothing about
// the password (and so a new password replaces the old one's Secret); the secret
// from the password, salted with the CA's hash.
func (t Token) Bootstrap() (string, error) {
	if !t.JoinsServers() {
		return t.id + "." + t.secret, nil
	}
	if t.caHash == "" {
		return "", errors.New("derive bootstrap token: the token lacks the hash of the CA")
	}
	slow, err := scrypt.Key([]byte(t.password), []byte("k8shost bootstrap token v1 "+t.caHash), scryptN, scryptR, scryptP, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive bootstrap token: %w", err)
	}
	id, err := letters([]byte(t.caHash), "k8shost bootstrap token id", idLength)
	if err != nil {
		return "", fmt.Errorf("derive bootstrap token: %w", err)
	}
	secret, err := letters(slow, "k8shost bootstrap token secret", secretLength)
	if err != nil {
		return "", fmt.Errorf("derive bootstrap token: %w", err)
	}
	return id + "." + secret, nil
}

// letters derives length characters of [0-9a-z] from key. 32 bytes are so many
// more than are needed that taking a remainder prefers no character noticeably.
func letters(key []byte, purpose string, length int) (string, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, purpose, 32)
	if err != nil {
		return "", err
	}
	limit := new(big.Int).Exp(big.NewInt(36), big.NewInt(int64(length)), nil)
	text := new(big.Int).Mod(new(big.Int).SetBytes(derived), limit).Text(36)
	return strings.Repeat("0", length-len(text)) + text, nil
}

// The sealed form: a header that names form and version, the salt of the key,
// the nonce, and the ciphertext (XChaCha20-Poly1305). Header and salt are
// authenticated too. Another cost or cipher is another version.
const (
	sealHeader = "k8shost-sealed-v1\n"
	saltSize   = 16
)

var (
	// ErrWrongPassword says that sealed data does not open: the password is
	// another one, or the data was changed.
	ErrWrongPassword = errors.New("wrong password, or the sealed data is damaged")
	// ErrNotSealed says that data is not of the sealed form.
	ErrNotSealed = errors.New("not data sealed by this version of k8shost")
)

// Seal encrypts plaintext so that only the password opens it.
func Seal(password string, plaintext []byte) ([]byte, error) {
	random := make([]byte, saltSize+chacha20poly1305.NonceSizeX)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	sealed := append([]byte(sealHeader), random...)
	authenticated := sealed[: len(sealHeader)+saltSize : len(sealHeader)+saltSize]
	key, err := sealingKey(password, random[:saltSize])
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return aead.Seal(sealed, random[saltSize:], plaintext, authenticated), nil
}

// Open decrypts what Seal made with the same password.
func Open(password string, sealed []byte) ([]byte, error) {
	const nonceAt, textAt = len(sealHeader) + saltSize, len(sealHeader) + saltSize + chacha20poly1305.NonceSizeX
	if len(sealed) < textAt || string(sealed[:len(sealHeader)]) != sealHeader {
		return nil, fmt.Errorf("open sealed data: %w", ErrNotSealed)
	}
	key, err := sealingKey(password, sealed[len(sealHeader):nonceAt])
	if err != nil {
		return nil, fmt.Errorf("open sealed data: %w", err)
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("open sealed data: %w", err)
	}
	plaintext, err := aead.Open(nil, sealed[nonceAt:textAt], sealed[textAt:], sealed[:nonceAt])
	if err != nil {
		return nil, fmt.Errorf("open sealed data: %w", ErrWrongPassword)
	}
	return plaintext, nil
}

func sealingKey(password string, salt []byte) ([]byte, error) {
	return scrypt.Key([]byte(password), salt, scryptN, scryptR, scryptP, chacha20poly1305.KeySize)
}
