package state

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Authorizer decides who may work on a stack's state.
type Authorizer interface {
	// Authorize returns ErrUnauthenticated where nobody is named, any other error where somebody is refused.
	Authorize(r *http.Request, stack string) error
}

// ErrUnauthenticated is the error of a request that names nobody.
var ErrUnauthenticated = errors.New("no credentials given")

// TokenUser is the user name that goes with a token.
const TokenUser = "stack"

const tokenFormat = "s1"

// Tokens are passwords for one stack, for some time. They hold all that is needed to check them: nothing is stored.
type Tokens struct {
	key []byte
	now func() time.Time
}

var _ Authorizer = (*Tokens)(nil)

// NewTokens takes a secret of at least KeySize bytes.
func NewTokens(secret []byte, now func() time.Time) (*Tokens, error) {
	if len(secret) < KeySize {
		return nil, fmt.Errorf("open tokens: the secret has %d bytes, it needs %d", len(secret), KeySize)
	}
	return &Tokens{key: secret, now: now}, nil
}

// Issue makes a token for a stack. It has to outlive the operation: a state that cannot be written at the end of an
// apply is lost.
func (t *Tokens) Issue(stack string, lifetime time.Duration) string {
	expiry := strconv.FormatInt(t.now().Add(lifetime).Unix(), 10)
	return strings.Join([]string{tokenFormat, expiry, t.sign(stack, expiry)}, ".")
}

// Authorize checks the password of basic authentication, which is what tofu sends.
func (t *Tokens) Authorize(r *http.Request, stack string) error {
	_, password, ok := r.BasicAuth()
	if !ok {
		return ErrUnauthenticated
	}
	parts := strings.Split(password, ".")
	if len(parts) != 3 || parts[0] != tokenFormat || !hmac.Equal([]byte(parts[2]), []byte(t.sign(stack, parts[1]))) {
		return errors.New("this token is not for this stack")
	}
	if expiry, err := strconv.ParseInt(parts[1], 10, 64); err != nil || t.now().Unix() > expiry {
		return errors.New("this token has expired")
	}
	return nil
}

func (t *Tokens) sign(stack, expiry string) string {
	mac := hmac.New(sha256.New, t.key)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", tokenFormat, stack, expiry)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
