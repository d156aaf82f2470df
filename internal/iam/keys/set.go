package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
)

// Key signs tokens from a moment on, until a newer one does.
type Key struct {
	ID        string
	SignsFrom time.Time
	private   *ecdsa.PrivateKey
}

// String keeps the key itself out of logs.
func (k Key) String() string { return "signing key " + k.ID }

// GoString keeps it out of %#v as well.
func (k Key) GoString() string { return k.String() }

// newKey makes a key. Its ID is the thumbprint of RFC 7638: it follows from the key, so it cannot be mistaken.
func newKey(signsFrom time.Time) (Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("make signing key: %w", err)
	}
	id, err := thumbprint(private)
	if err != nil {
		return Key{}, fmt.Errorf("make signing key: %w", err)
	}
	return Key{ID: id, SignsFrom: signsFrom.UTC().Truncate(time.Millisecond), private: private}, nil
}

func thumbprint(private *ecdsa.PrivateKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: private.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// set is all keys that are known at a moment, in the order in which they sign. It does not change.
type set []Key

// stored is the form in which keys are kept in the Secret.
type stored struct {
	Keys []storedKey `json:"keys"`
}

type storedKey struct {
	ID        string    `json:"id"`
	SignsFrom time.Time `json:"signsFrom"`
	Private   string    `json:"private"` // PEM
}

func (s set) marshal() ([]byte, error) {
	var out stored
	for _, key := range s {
		private, err := keyutil.MarshalPrivateKeyToPEM(key.private)
		if err != nil {
			return nil, fmt.Errorf("write signing key %s: %w", key.ID, err)
		}
		out.Keys = append(out.Keys, storedKey{ID: key.ID, SignsFrom: key.SignsFrom, Private: string(private)})
	}
	return json.Marshal(out)
}

// parse reads what marshal wrote. Its errors hold nothing of the keys.
func parse(data []byte) (set, error) {
	var in stored
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, errors.New("read signing keys: they are not of the expected form")
	}
	keys := make(set, 0, len(in.Keys))
	for _, k := range in.Keys {
		parsed, err := keyutil.ParsePrivateKeyPEM([]byte(k.Private))
		private, ok := parsed.(*ecdsa.PrivateKey)
		if err != nil || !ok || private.Curve != elliptic.P256() {
			return nil, fmt.Errorf("read signing key %s: it is no P-256 key", k.ID)
		}
		if id, err := thumbprint(private); err != nil || id != k.ID {
			return nil, fmt.Errorf("read signing key %s: its name and the key do not belong together", k.ID)
		}
		keys = append(keys, Key{ID: k.ID, SignsFrom: k.SignsFrom, private: private})
	}
	keys.sort()
	return keys, nil
}

func (s set) sort() {
	slices.SortStableFunc(s, func(a, b Key) int { return a.SignsFrom.Compare(b.SignsFrom) })
}

// signing returns the key to sign with: the newest whose time has come.
func (s set) signing(now time.Time) (Key, bool) {
	for _, key := range slices.Backward(s) {
		if !key.SignsFrom.After(now) {
			return key, true
		}
	}
	return Key{}, false
}

// verifiesUntil is when the last token that the i-th key may have signed has expired: never, while no other key
// follows.
func (s set) verifiesUntil(i int, policy Policy) (time.Time, bool) {
	if i+1 >= len(s) {
		return time.Time{}, false
	}
	return s[i+1].SignsFrom.Add(policy.TokenLifetime + policy.Skew), true
}

// verifying returns the keys whose signatures count, those included that will sign soon.
func (s set) verifying(now time.Time, policy Policy) set {
	var keys set
	for i, key := range s {
		if until, ends := s.verifiesUntil(i, policy); !ends || now.Before(until) {
			keys = append(keys, key)
		}
	}
	return keys
}

// next is what the keys should be now: those that verify nothing any more are gone, and the next one is there when it
// is time to publish it, or at once if that is asked for. It also returns when to look again.
func (s set) next(now time.Time, policy Policy, rotate bool) (set, time.Time, error) {
	keys := s.verifying(now, policy)
	switch {
	case len(keys) == 0:
		key, err := newKey(now)
		if err != nil {
			return nil, time.Time{}, err
		}
		keys = set{key}
	case rotate || !now.Before(policy.publishes(keys)):
		key, err := newKey(policy.signs(keys, now, rotate))
		if err != nil {
			return nil, time.Time{}, err
		}
		keys = append(keys, key)
		keys.sort() // a key on demand signs before one that is published already
	}
	wake := policy.publishes(keys)
	for i := range keys {
		if until, ends := keys.verifiesUntil(i, policy); ends && until.Before(wake) {
			wake = until
		}
	}
	return keys, wake, nil
}

func (s set) equal(other set) bool {
	return slices.EqualFunc(s, other, func(a, b Key) bool { return a.ID == b.ID })
}
