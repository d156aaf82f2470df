package token

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// Audience is that of session tokens which every API server accepts.
	Audience = "plasmacloud"
	// refreshAudience is that of refresh tokens: no API server accepts it.
	refreshAudience = "plasmacloud:refresh"

	// Lifetime is how long a session token is good: as long as an API server that verifies offline may go on accepting
	// a user who is not wanted any more.
	Lifetime = 15 * time.Minute

	// maxLength bounds the tokens that are looked at.
	maxLength = 64 << 10

	// maxSigned is how many tokens are remembered; about a kilobyte each.
	maxSigned = 8192

	// skew is how far the clock of the replica that issued a token may be ahead.
	skew = time.Minute
)

// ErrInvalid is all that is said of a token that is not accepted.
var ErrInvalid = errors.New("invalid or expired token")

// Claims are what a session token says.
type Claims struct {
	jwt.Claims
	Email     string   `json:"email,omitempty"`
	OrgID     string   `json:"org_id,omitempty"`
	ProjectID string   `json:"project_id,omitempty"`
	Roles     []string `json:"roles,omitempty"`
	// Confined tokens are good in ProjectID and nowhere else; in others it is just where the user works.
	Confined bool `json:"confined,omitempty"`
	// Username and Groups are what Kubernetes sees, for API servers that verify offline.
	Username string   `json:"preferred_username,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	// Session is the login that the token comes from.
	Session string `json:"sid,omitempty"`
}

// Keys sign and verify, as package keys keeps them.
type Keys interface {
	Signing() (id string, key *ecdsa.PrivateKey, err error)
	Verifying(id string) (*ecdsa.PublicKey, bool)
}

// Issuer signs and verifies session tokens.
type Issuer struct {
	url   string
	keys  Keys
	clock clock.PassiveClock
	// signed are tokens whose signature was found good, by their SHA-256. API servers ask about the same ones over and
	// over, and verifying a signature is most of the work. Whether key and token are still good is asked each time.
	signed *lru.Cache
}

// signature is a token whose signature is good.
type signature struct {
	key    string
	claims *Claims // nobody changes them
}

// NewIssuer returns an Issuer that names itself by its URL, where its discovery document is found.
func NewIssuer(url string, keys Keys, clk clock.PassiveClock) *Issuer {
	return &Issuer{url: url, keys: keys, clock: clk, signed: lru.New(maxSigned)}
}

// URL is the issuer's name.
func (i *Issuer) URL() string { return i.url }

// Window is the time in which a token is good.
type Window struct {
	From, Until time.Time
}

// Issue signs a session token for the audience, which is Audience where it is empty. The issuer, times and identifiers
// of the claims are filled in.
func (i *Issuer) Issue(claims Claims, audience string, window Window) (string, error) {
	if audience == "" {
		audience = Audience
	}
	return i.sign(claims, audience, "JWT", window)
}

// IssueRefresh signs the refresh token of a session.
func (i *Issuer) IssueRefresh(user, session string, window Window) (string, error) {
	claims := Claims{Claims: jwt.Claims{Subject: user}, Session: session}
	return i.sign(claims, refreshAudience, "refresh+jwt", window)
}

func (i *Issuer) sign(claims Claims, audience, kind string, window Window) (string, error) {
	id, key, err := i.keys.Signing()
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(kind))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, options)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	claims.Issuer = i.url
	claims.Audience = jwt.Audience{audience}
	claims.ID = uuid.NewString()
	claims.IssuedAt = jwt.NewNumericDate(window.From)
	claims.NotBefore = claims.IssuedAt
	claims.Expiry = jwt.NewNumericDate(window.Until)
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return signed, nil
}

// Verify reads a session token that is good now. Its audience is for the caller to judge, except that a refresh token
// is none.
func (i *Issuer) Verify(raw string) (*Claims, error) {
	claims, err := i.verify(raw)
	if err != nil || claims.Audience.Contains(refreshAudience) {
		return nil, ErrInvalid
	}
	return claims, nil
}

// Confinement is the project that the token is confined to, or "".
func (c *Claims) Confinement() string {
	if c.Confined {
		return c.ProjectID
	}
	return ""
}

// VerifyRefresh reads a refresh token that is good now.
func (i *Issuer) VerifyRefresh(raw string) (*Claims, error) {
	claims, err := i.verify(raw)
	if err != nil || !claims.Audience.Contains(refreshAudience) || claims.Session == "" {
		return nil, ErrInvalid
	}
	return claims, nil
}

func (i *Issuer) verify(raw string) (*Claims, error) {
	if len(raw) > maxLength {
		return nil, ErrInvalid
	}
	claims, ok := i.open(raw)
	if !ok {
		return nil, ErrInvalid
	}
	now := i.clock.Now()
	switch {
	case claims.Issuer != i.url, claims.Subject == "", len(claims.Audience) != 1:
	case claims.Expiry == nil || !now.Before(claims.Expiry.Time()):
	case claims.IssuedAt == nil || claims.IssuedAt.Time().After(now.Add(skew)):
	case claims.NotBefore != nil && claims.NotBefore.Time().After(now.Add(skew)):
	default:
		return claims, nil
	}
	return nil, ErrInvalid
}

// open returns what a token says if one of our keys signed it that counts.
func (i *Issuer) open(raw string) (*Claims, bool) {
	sum := sha256.Sum256([]byte(raw))
	if found, ok := i.signed.Get(sum); ok {
		known := found.(*signature)
		_, counts := i.keys.Verifying(known.key)
		return known.claims, counts
	}
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(parsed.Headers) != 1 {
		return nil, false
	}
	id := parsed.Headers[0].KeyID
	public, ok := i.keys.Verifying(id)
	if !ok {
		return nil, false
	}
	claims := &Claims{}
	if err := parsed.Claims(public, claims); err != nil {
		return nil, false
	}
	i.signed.Add(sum, &signature{key: id, claims: claims})
	return claims, true
}
