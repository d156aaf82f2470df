// Package token makes and reads the two kinds of tokens. Access tokens are random secrets of which only a hash is kept;
// what they are good for is in the API. Session tokens are signed (JWT, ES256) and say themselves who they speak for:
// short-lived ones to be shown to API servers, and refresh tokens that only the identity service takes.
//
// Whether the user behind a token still exists and may do anything is not asked here, but in package review.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// AccessPrefix is what every access token begins with: for people to recognize one, and for scanners that look for
// secrets in places where they should not be.
const AccessPrefix = "pct_"

// accessBytes is the randomness of an access token: 256 bits cannot be guessed, so a plain hash protects them.
const accessBytes = 32

// NewAccess returns a new access token and the hash to keep of it.
func NewAccess() (secret, hash string, err error) {
	random := make([]byte, accessBytes)
	if _, err := rand.Read(random); err != nil {
		return "", "", fmt.Errorf("make access token: %w", err)
	}
	secret = AccessPrefix + base64.RawURLEncoding.EncodeToString(random)
	return secret, HashAccess(secret), nil
}

// HashAccess is the SHA-256 of an access token, in hexadecimal.
func HashAccess(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// IsAccess tells access tokens from session tokens.
func IsAccess(text string) bool { return strings.HasPrefix(text, AccessPrefix) }
