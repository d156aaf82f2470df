package state

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

const (
	// KeySize is the length of a key.
	KeySize = 32

	saltSize   = 32
	sealFormat = 1
	maxState   = 256 << 20 // unpacked; far beyond any stack, so that a forged content cannot fill the memory
)

// Keyring seals with its first key and opens with any: to rotate, put the new key first, and drop the old one once
// every stack was written again.
type Keyring struct{ keys []namedKey }

type namedKey struct {
	id  [8]byte
	key []byte
}

// NewKeyring takes keys of KeySize bytes.
func NewKeyring(keys ...[]byte) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("open keyring: no key given")
	}
	ring := new(Keyring)
	for _, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("open keyring: a key has %d bytes, it needs %d", len(key), KeySize)
		}
		named := namedKey{key: bytes.Clone(key)}
		sum := sha256.Sum256(append([]byte("plasmacloud state key\x00"), key...))
		copy(named.id[:], sum[:])
		ring.keys = append(ring.keys, named)
	}
	return ring, nil
}

// Seal packs and encrypts data. It opens only with the same bound. Every content is sealed with a key of its own,
// derived from a random salt, so that no number of contents wears a key out.
func (k *Keyring) Seal(data, bound []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	first := k.keys[0]
	out := append([]byte{sealFormat}, first.id[:]...)
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	out = append(out, salt...)
	aead, nonce, err := first.derive(salt)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return aead.Seal(out, nonce, packed.Bytes(), bound), nil
}

// Open is the reverse of Seal.
func (k *Keyring) Open(sealed, bound []byte) ([]byte, error) {
	const head = 1 + 8 + saltSize
	if len(sealed) < head || sealed[0] != sealFormat {
		return nil, errors.New("unseal: this is no sealed content")
	}
	id, salt := sealed[1:9], sealed[9:head]
	for _, named := range k.keys {
		if !bytes.Equal(named.id[:], id) {
			continue
		}
		aead, nonce, err := named.derive(salt)
		if err != nil {
			return nil, fmt.Errorf("unseal: %w", err)
		}
		packed, err := aead.Open(nil, nonce, sealed[head:], bound)
		if err != nil {
			return nil, errors.New("unseal: the content was changed, or belongs elsewhere")
		}
		return unpack(packed)
	}
	return nil, fmt.Errorf("unseal: it is sealed with key %x, which is not on the keyring", id)
}

func unpack(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(data) > maxState {
		return nil, errors.New("unpack: the content is too large")
	}
	return data, nil
}

// derive makes the key and nonce of one content.
func (n namedKey) derive(salt []byte) (cipher.AEAD, []byte, error) {
	const nonceSize = 12
	material, err := hkdf.Key(sha256.New, n.key, salt, "plasmacloud state content", KeySize+nonceSize)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(material[:KeySize])
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, material[KeySize:], err
}
