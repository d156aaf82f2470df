// Package token is the join token of a k8shost cluster: how it is written, what
// is derived from it, and how it is kept in the cluster.
//
// There are two kinds. The cluster's own token holds a password and joins
// servers and agents; a bootstrap token holds an id and a secret, is made by
// `k8shost token create`, expires, and joins agents only. In full, both begin
// with the hash of the cluster's CA certificate, by which a joining node knows
// the server before it says anything:
//
//	K10<sha256 of the CA certificate, hex>::server:<password>
//	K10<sha256 of the CA certificate, hex>::<id>.<secret>
//
// What belongs here: text forms, derivation and sealing, and the
// bootstrap-token Secrets in kube-system. Talking to a server with a token is
// package join's work.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"

	certutil "k8s.io/client-go/util/cert"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

const (
	prefix       = "K10"
	separator    = "::"
	serverUser   = "server"
	hashLength   = 2 * sha256.Size
	idLength     = 6
	secretLength = 16

	// maxPassword keeps a file given by mistake from being taken for a password.
	maxPassword = 256
)

// ErrInvalid marks text that is not a token; the error says what is wrong with
// it and never repeats secret parts.
var ErrInvalid = errors.New("invalid token")

// Token is a parsed join token. Its secret parts do not show when it is printed
// or logged; Format writes them.
type Token struct {
	caHash   string
	password string
	id       string
	secret   string
}

// Parse reads a token in full or bare form: a password or an <id>.<secret>
// without the hash of the CA, as given to a cluster's first server.
func Parse(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Token{}, fmt.Errorf("%w: it is empty", ErrInvalid)
	}
	if rest, full := strings.CutPrefix(text, prefix); full {
		return parseFull(rest)
	}
	if strings.Contains(text, separator) {
		return Token{}, fmt.Errorf("%w: it has a %q but does not begin with %q: its beginning is missing", ErrInvalid, separator, prefix)
	}
	if bootstraputil.IsValidBootstrapToken(text) {
		return Token{id: text[:idLength], secret: text[idLength+1:]}, nil
	}
	if err := checkPassword(text); err != nil {
		return Token{}, err
	}
	return Token{password: text}, nil
}

// parseFull reads what follows the prefix.
func parseFull(rest string) (Token, error) {
	hash, credential, found := strings.Cut(rest, separator)
	if !found {
		return Token{}, cutShort(rest)
	}
	if err := checkHash(hash); err != nil {
		return Token{}, err
	}
	t := Token{caHash: strings.ToLower(hash)}
	if user, password, ok := strings.Cut(credential, ":"); ok {
		if user != serverUser {
			return Token{}, fmt.Errorf("%w: the user %q is unknown: it has to be %q", ErrInvalid, user, serverUser)
		}
		t.password = password
		return t, checkPassword(password)
	}
	id, secret, ok := strings.Cut(credential, ".")
	switch {
	case credential == "":
		return Token{}, fmt.Errorf("%w: it is cut short: nothing follows %q", ErrInvalid, separator)
	case credential == serverUser:
		return Token{}, fmt.Errorf("%w: it is cut short: the password is missing", ErrInvalid)
	case !ok:
		return Token{}, fmt.Errorf("%w: after %q neither %q nor <id>.<secret> follows", ErrInvalid, separator, serverUser+":<password>")
	case len(id) != idLength:
		return Token{}, fmt.Errorf("%w: the id has %d characters instead of %d", ErrInvalid, len(id), idLength)
	case len(secret) < secretLength:
		return Token{}, fmt.Errorf("%w: it is cut short: %d of the %d characters of the secret are there", ErrInvalid, len(secret), secretLength)
	case len(secret) > secretLength:
		return Token{}, fmt.Errorf("%w: the secret has %d characters instead of %d", ErrInvalid, len(secret), secretLength)
	case !bootstraputil.IsValidBootstrapToken(credential):
		return Token{}, fmt.Errorf("%w: the id and the secret may hold a-z and 0-9 only", ErrInvalid)
	}
	t.id, t.secret = id, secret
	return t, nil
}

// cutShort explains a token without separator.
func cutShort(rest string) error {
	hash := strings.TrimSuffix(rest, ":")
	if len(hash) < hashLength {
		if i := firstNotHex(hash); i >= 0 {
			return fmt.Errorf("%w: the separator %q is missing after the hash of the CA", ErrInvalid, separator)
		}
		return fmt.Errorf("%w: it is cut short: %d of the %d characters of the CA's hash are there", ErrInvalid, len(hash), hashLength)
	}
	if err := checkHash(hash[:hashLength]); err != nil {
		return err
	}
	if len(hash) == hashLength {
		return fmt.Errorf("%w: it is cut short: nothing follows the hash of the CA", ErrInvalid)
	}
	return fmt.Errorf("%w: the separator %q is missing after the hash of the CA", ErrInvalid, separator)
}

func checkHash(hash string) error {
	if i := firstNotHex(hash); i >= 0 {
		return fmt.Errorf("%w: character %d of the CA's hash, %q, is not a hexadecimal digit", ErrInvalid, i+1, hash[i])
	}
	if len(hash) < hashLength {
		return fmt.Errorf("%w: it is cut short: %d of the %d characters of the CA's hash are there", ErrInvalid, len(hash), hashLength)
	}
	if len(hash) > hashLength {
		return fmt.Errorf("%w: the CA's hash has %d characters instead of %d", ErrInvalid, len(hash), hashLength)
	}
	return nil
}

func firstNotHex(s string) int {
	for i := range len(s) {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])) {
			return i
		}
	}
	return -1
}

func checkPassword(password string) error {
	if password == "" {
		return fmt.Errorf("%w: the password is empty", ErrInvalid)
	}
	if len(password) > maxPassword {
		return fmt.Errorf("%w: the password has %d characters; %d are allowed", ErrInvalid, len(password), maxPassword)
	}
	for _, r := range password {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return fmt.Errorf("%w: the password holds white space or unprintable characters", ErrInvalid)
		}
	}
	return nil
}

// NewPassword makes a password of 128 random bits.
func NewPassword() (string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("make password: %w", err)
	}
	return hex.EncodeToString(random), nil
}

// HashCA is the hash by which tokens know a CA: the SHA-256 of its DER form.
func HashCA(certPEM []byte) (string, error) {
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return "", fmt.Errorf("hash CA certificate: %w", err)
	}
	return HashDER(certs[0].Raw), nil
}

// HashDER is HashCA of a certificate that is decoded already.
func HashDER(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// WithCA returns the token in full form, for the CA of the given hash.
func (t Token) WithCA(caHash string) Token {
	t.caHash = caHash
	return t
}

// CAHash is the hash of the cluster's CA, or "" in a bare token.
func (t Token) CAHash() string { return t.caHash }

// Password is the cluster's password, or "" in a bootstrap token.
func (t Token) Password() string { return t.password }

// JoinsServers says whether the token is the cluster's own: bootstrap tokens
// join agents only.
func (t Token) JoinsServers() bool { return t.password != "" }

// Format writes the token with its secrets, as Parse reads it.
func (t Token) Format() string {
	if t.password != "" {
		return t.format(t.password)
	}
	return t.format(t.secret)
}

// String writes the token without its secrets.
func (t Token) String() string { return t.format("***") }

// GoString keeps the secrets out of %#v as well.
func (t Token) GoString() string { return t.String() }

// LogValue keeps the secrets out of logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

func (t Token) format(secret string) string {
	credential := secret
	switch {
	case t.password == "":
		credential = t.id + "." + secret
	case t.caHash != "":
		credential = serverUser + ":" + secret
	}
	if t.caHash == "" {
		return credential
	}
	return prefix + t.caHash + separator + credential
}
