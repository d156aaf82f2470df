package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const issuerURL = "https://iam.example:3000"

type fakeKeys struct {
	signing string
	keys    map[string]*ecdsa.PrivateKey
}

func newKeys(t *testing.T, ids ...string) *fakeKeys {
	t.Helper()
	k := &fakeKeys{signing: ids[0], keys: map[string]*ecdsa.PrivateKey{}}
	for _, id := range ids {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		k.keys[id] = key
	}
	return k
}

func (k *fakeKeys) Signing() (string, *ecdsa.PrivateKey, error) {
	if k.signing == "" {
		return "", nil, errors.New("no keys")
	}
	return k.signing, k.keys[k.signing], nil
}

func (k *fakeKeys) Verifying(id string) (*ecdsa.PublicKey, bool) {
	key, ok := k.keys[id]
	if !ok {
		return nil, false
	}
	return &key.PublicKey, true
}

func exampleClaims() Claims {
	return Claims{
		Claims: jwt.Claims{Subject: "user-550e8400-e29b-41d4-a716-446655440000"},
		Email:  "user@example.com", OrgID: "org-123", ProjectID: "proj-456", Roles: []string{"org_admin", "project_member"},
		Session: "s1",
	}
}

func window() Window { return Window{From: start, Until: start.Add(Lifetime)} }

func TestAccessTokens(t *testing.T) {
	secret, hash, err := NewAccess()
	if err != nil {
		t.Fatal(err)
	}
	random, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(secret, "pct_"))
	if err != nil || len(random) != 32 || !strings.HasPrefix(secret, "pct_") || !IsAccess(secret) {
		t.Errorf("token %d bytes, %v", len(random), err)
	}
	if len(hash) != 64 || HashAccess(secret) != hash || strings.Contains(hash, secret) {
		t.Errorf("hash %s", hash)
	}
	if other, _, _ := NewAccess(); other == secret {
		t.Error("two tokens are the same")
	}
	if IsAccess("eyJhbGciOi") {
		t.Error("a session token was taken for an access token")
	}
}

func TestSessionTokensCarryTheClaims(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	issuer := NewIssuer(issuerURL, newKeys(t, "k1"), clk)
	raw, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(raw, ".")
	var header, payload map[string]any
	for part, into := range map[string]*map[string]any{parts[0]: &header, parts[1]: &payload} {
		data, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	if header["alg"] != "ES256" || header["kid"] != "k1" || header["typ"] != "JWT" {
		t.Errorf("header %v", header)
	}
	for name, want := range map[string]any{
		"sub": "user-550e8400-e29b-41d4-a716-446655440000", "email": "user@example.com", "org_id": "org-123", "project_id": "proj-456",
		"iss": issuerURL, "aud": "plasmacloud", "exp": float64(start.Add(15 * time.Minute).Unix()), "iat": float64(start.Unix()), "sid": "s1",
	} {
		got := payload[name]
		if list, ok := got.([]any); ok && len(list) == 1 {
			got = list[0]
		}
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if payload["jti"] == "" || payload["jti"] == nil {
		t.Error("there is no jti")
	}
	claims, err := issuer.Verify(raw)
	if err != nil || claims.Email != "user@example.com" || !slices.Equal(claims.Roles, []string{"org_admin", "project_member"}) {
		t.Errorf("%+v, %v", claims, err)
	}
}

func TestTokensEndAndBegin(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	issuer := NewIssuer(issuerURL, newKeys(t, "k1"), clk)
	raw, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		t.Fatal(err)
	}
	for after, good := range map[time.Duration]bool{ // also of one that is remembered
		-2 * time.Minute: false, -30 * time.Second: true, 0: true, Lifetime - time.Second: true, Lifetime: false, time.Hour: false,
	} {
		clk.SetTime(start.Add(after))
		if _, err := issuer.Verify(raw); (err == nil) != good {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

func TestRefreshTokensAreNoSessionTokens(t *testing.T) {
	issuer := NewIssuer(issuerURL, newKeys(t, "k1"), clocktesting.NewFakePassiveClock(start))
	refresh, err := issuer.IssueRefresh("user-1", "s1", window())
	if err != nil {
		t.Fatal(err)
	}
	session, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Verify(refresh); !errors.Is(err, ErrInvalid) {
		t.Errorf("a refresh token is accepted as a session token: %v", err)
	}
	if _, err := issuer.VerifyRefresh(session); !errors.Is(err, ErrInvalid) {
		t.Errorf("a session token is accepted as a refresh token: %v", err)
	}
	if claims, err := issuer.VerifyRefresh(refresh); err != nil || claims.Subject != "user-1" || claims.Session != "s1" {
		t.Errorf("%+v, %v", claims, err)
	}
}

func TestTokensOfOldKeysVerify(t *testing.T) {
	keys := newKeys(t, "k1", "k2")
	issuer := NewIssuer(issuerURL, keys, clocktesting.NewFakePassiveClock(start))
	raw, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		t.Fatal(err)
	}
	keys.signing = "k2"
	if _, err := issuer.Verify(raw); err != nil {
		t.Error(err)
	}
	delete(keys.keys, "k1")
	if _, err := issuer.Verify(raw); !errors.Is(err, ErrInvalid) {
		t.Errorf("verified without its key: %v", err)
	}
	keys.signing = ""
	if _, err := issuer.Issue(exampleClaims(), "", window()); err == nil {
		t.Error("signed without a key")
	}
}

// forge signs claims by other means than an Issuer.
func forge(t *testing.T, algorithm jose.SignatureAlgorithm, key any, kid string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestForgeriesAreRefused(t *testing.T) {
	keys := newKeys(t, "k1")
	issuer := NewIssuer(issuerURL, keys, clocktesting.NewFakePassiveClock(start))
	good, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := issuer.Verify(good)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*Claims)) string {
		changed := *claims
		f(&changed)
		return forge(t, jose.ES256, keys.keys["k1"], "k1", changed)
	}
	foreign := newKeys(t, "k1").keys["k1"]
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	publicAsSecret, err := keys.keys["k1"].PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`))
	for name, raw := range map[string]string{
		"empty": "", "text": "x", "dots": "..", "access token": AccessPrefix + "x",
		"foreign key":        forge(t, jose.ES256, foreign, "k1", claims),
		"unknown key":        forge(t, jose.ES256, foreign, "k9", claims),
		"no key ID":          forge(t, jose.ES256, keys.keys["k1"], "", claims),
		"RS256":              forge(t, jose.RS256, rsaKey, "k1", claims),
		"HS256 with public":  forge(t, jose.HS256, publicAsSecret, "k1", claims),
		"alg none":           none + "." + parts[1] + ".",
		"no signature":       parts[0] + "." + parts[1] + ".",
		"changed payload":    parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + "." + parts[2],
		"other issuer":       change(func(c *Claims) { c.Issuer = "https://evil.example" }),
		"no subject":         change(func(c *Claims) { c.Subject = "" }),
		"no audience":        change(func(c *Claims) { c.Audience = nil }),
		"two audiences":      change(func(c *Claims) { c.Audience = jwt.Audience{Audience, "x"} }),
		"no expiry":          change(func(c *Claims) { c.Expiry = nil }),
		"no time of issue":   change(func(c *Claims) { c.IssuedAt = nil }),
		"issued in future":   change(func(c *Claims) { c.IssuedAt = jwt.NewNumericDate(start.Add(time.Hour)) }),
		"not good yet":       change(func(c *Claims) { c.NotBefore = jwt.NewNumericDate(start.Add(time.Hour)) }),
		"too long":           strings.Repeat("a", maxLength+1),
		"claims are no JSON": forge(t, jose.ES256, keys.keys["k1"], "k1", map[string]any{"iss": 1}),
	} {
		if _, err := issuer.Verify(raw); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := issuer.VerifyRefresh(raw); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s as refresh token: %v", name, err)
		}
	}
	if _, err := issuer.Verify(change(func(*Claims) {})); err != nil {
		t.Errorf("the unchanged claims are refused: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	issuer := NewIssuer(issuerURL, &fakeKeys{signing: "k1", keys: map[string]*ecdsa.PrivateKey{"k1": key}}, clocktesting.NewFakePassiveClock(start))
	raw, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add("a.b.c")
	f.Add(raw[:len(raw)-1])
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := issuer.Verify(text); err == nil && text != raw {
			t.Errorf("accepted %q", text)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	keys := &fakeKeys{signing: "k1", keys: map[string]*ecdsa.PrivateKey{"k1": key}}
	issuer := NewIssuer(issuerURL, keys, clocktesting.NewFakePassiveClock(start))
	raw, err := issuer.Issue(exampleClaims(), "", window())
	if err != nil {
		b.Fatal(err)
	}
	for name, forget := range map[string]bool{"new": true, "remembered": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if forget {
					issuer.signed.Clear()
				}
				if _, err := issuer.Verify(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
