// Package password turns passwords into argon2id hashes, in the PHC string form, and judges passwords by them. It knows
// nothing of users or of where hashes are kept.
//
// Hashing is slow and takes memory on purpose, so a Hasher does few at a time: a flood of logins waits here instead of
// taking the CPUs away from those who are logged in already.
package password

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
)

const (
	// MinLength is the least number of characters of a new password, as NIST SP 800-63B asks for; what is in it is the
	// user's affair.
	MinLength = 8
	// MaxLength bounds the bytes of a password that is looked at: nobody types more, and hashing it costs time.
	MaxLength = 1024

	// maxMemory (KiB), maxIterations and maxParallelism bound what a stored hash may make us spend.
	maxMemory      = 1 << 20
	maxIterations  = 64
	maxParallelism = 16
)

// Params are the costs of a hash.
type Params struct {
	Memory      uint32 // KiB
	Iterations  uint32
	Parallelism uint8
}

// DefaultParams are the costs that new hashes have unless others are asked for: the first choice of the OWASP password
// storage cheat sheet for argon2id.
func DefaultParams() Params { return Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1} }

func (p Params) validate() error {
	switch {
	case p.Parallelism < 1 || p.Parallelism > maxParallelism:
		return fmt.Errorf("parallelism %d is not between 1 and %d", p.Parallelism, maxParallelism)
	case p.Iterations < 1 || p.Iterations > maxIterations:
		return fmt.Errorf("%d iterations are not between 1 and %d", p.Iterations, maxIterations)
	case p.Memory < 8*uint32(p.Parallelism) || p.Memory > maxMemory:
		return fmt.Errorf("memory of %d KiB is not between %d and %d", p.Memory, 8*uint32(p.Parallelism), maxMemory)
	}
	return nil
}

const (
	saltLength = 16
	keyLength  = 32
)

func (p Params) library() *argon2id.Params {
	return &argon2id.Params{
		Memory: p.Memory, Iterations: p.Iterations, Parallelism: p.Parallelism,
		SaltLength: saltLength, KeyLength: keyLength,
	}
}

// ErrTooShort and ErrTooLong refuse a new password.
var (
	ErrTooShort = fmt.Errorf("a password has at least %d characters", MinLength)
	ErrTooLong  = fmt.Errorf("a password has at most %d bytes", MaxLength)
	errNoHash   = errors.New("this is no argon2id hash")
)

// Hasher makes and verifies hashes.
type Hasher struct {
	params Params
	slots  chan struct{}
	// decoy is verified when there is no hash, so that an unknown user takes as long as a known one.
	decoy string
}

// NewHasher returns a Hasher whose new hashes cost params; at most concurrent of them are computed at once.
func NewHasher(params Params, concurrent int) (*Hasher, error) {
	if err := params.validate(); err != nil {
		return nil, fmt.Errorf("make password hasher: %w", err)
	}
	h := &Hasher{params: params, slots: make(chan struct{}, max(1, concurrent))}
	decoy, err := argon2id.CreateHash("", params.library())
	if err != nil {
		return nil, fmt.Errorf("make password hasher: %w", err)
	}
	h.decoy = decoy
	return h, nil
}

// Hash returns the PHC string of a new password.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if utf8.RuneCountInString(password) < MinLength {
		return "", ErrTooShort
	}
	if len(password) > MaxLength {
		return "", ErrTooLong
	}
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	hash, err := argon2id.CreateHash(password, h.params.library())
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return hash, nil
}

// Verify says whether the password belongs to the hash. An empty hash (nobody of that name, or nobody with a password)
// is refused after as much work as any other. The error tells of a hash that is damaged or of a caller that went away;
// the password is refused then too.
func (h *Hasher) Verify(ctx context.Context, password, hash string) (bool, error) {
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	decoy := hash == "" || len(password) > MaxLength
	if decoy {
		password, hash = "decoy", h.decoy
	}
	if _, err := paramsOf(hash); err != nil {
		return false, fmt.Errorf("verify password: %w", err)
	}
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil {
		return false, fmt.Errorf("verify password: %w", errNoHash)
	}
	return match && !decoy, nil
}

// Outdated says whether the hash was made with other costs than new ones are: then it should be made anew, at the next
// login, when the password is at hand.
func (h *Hasher) Outdated(hash string) bool {
	params, err := paramsOf(hash)
	return err != nil || params != h.params
}

// paramsOf reads the costs of a hash and refuses those that nobody asked for. The library's own errors may hold parts
// of the hash, so they are not passed on.
func paramsOf(hash string) (Params, error) {
	p, salt, key, err := argon2id.DecodeHash(hash)
	if err != nil || len(salt) == 0 || len(key) == 0 {
		return Params{}, errNoHash
	}
	params := Params{Memory: p.Memory, Iterations: p.Iterations, Parallelism: p.Parallelism}
	return params, params.validate()
}

func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to hash a password: %w", context.Cause(ctx))
	}
}

func (h *Hasher) leave() { <-h.slots }
