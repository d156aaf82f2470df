// Package keys keeps the keys that sign tokens: it makes them, replaces them on schedule and on demand, shares them
// between replicas in a Secret, and says which ones verify.
//
// A key is published before it signs, so that everybody who verifies has it by then, and verifies after its successor
// has taken over until the last token it signed has expired. No token is refused because of a rotation. While the API
// server is away the keys stay as they are: nothing rotates, and nothing expires that is still in use.
//
// Deleting the Secret is the emergency brake: every token signed so far is refused, and a new key is made at once.
package keys

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

const (
	// SecretName is the Secret that holds the keys.
	SecretName = "iam-signing-keys"
	// AnnotationRotate on the Secret asks for a new key; its value is any new text.
	AnnotationRotate = "plasmacloud.io/rotate"
	// annotationRotated is the last such text that was heeded.
	annotationRotated = "plasmacloud.io/rotated"

	dataKey = "keys.json"

	// retryInterval is how long after a failure the keys are looked after again.
	retryInterval = 10 * time.Second
)

// Policy is how long keys live.
type Policy struct {
	// RotateEvery is how long a key signs.
	RotateEvery time.Duration
	// PublishAhead is how long before that a key is published: longer than anybody who verifies remembers the old ones.
	PublishAhead time.Duration
	// PublishAheadOnDemand is the same for a rotation on demand: as long as replicas need to hear of it. Who verifies
	// elsewhere has to look again when it meets a key it does not know.
	PublishAheadOnDemand time.Duration
	// TokenLifetime is that of the longest-lived token that is signed.
	TokenLifetime time.Duration
	// Skew is how far clocks may differ.
	Skew time.Duration
}

// DefaultPolicy rotates once a day.
func DefaultPolicy(tokenLifetime time.Duration) Policy {
	return Policy{
		RotateEvery:          24 * time.Hour,
		PublishAhead:         time.Hour,
		PublishAheadOnDemand: 10 * time.Second,
		TokenLifetime:        tokenLifetime,
		Skew:                 time.Minute,
	}
}

// publishes is when the successor of the newest key is published.
func (p Policy) publishes(keys set) time.Time {
	return keys[len(keys)-1].SignsFrom.Add(p.RotateEvery - p.PublishAhead)
}

// signs is from when on a key that is made now signs. Whatever the schedule says, it is published for a while first.
func (p Policy) signs(keys set, now time.Time, onDemand bool) time.Time {
	if onDemand {
		return now.Add(p.PublishAheadOnDemand)
	}
	return later(keys[len(keys)-1].SignsFrom.Add(p.RotateEvery), now.Add(p.PublishAhead))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Record is the Secret, as package store keeps it.
type Record interface {
	Watch(ctx context.Context, changed func(*corev1.Secret)) error
	Update(ctx context.Context, change func(*corev1.Secret) (bool, error)) error
}

// ErrNoKeys says that no key is known: the service has not heard from the API server yet.
var ErrNoKeys = errors.New("there are no signing keys yet")

// Keeper looks after the keys. All replicas do that at once: whoever is first changes the Secret, and the others see
// that nothing is left to do.
type Keeper struct {
	record Record
	policy Policy
	clock  clock.Clock
	logger *slog.Logger
	keys   atomic.Pointer[set] // what was last heard
	poke   chan struct{}
}

// NewKeeper returns a Keeper that knows no keys until Run has found or made them.
func NewKeeper(record Record, policy Policy, clk clock.Clock, logger *slog.Logger) *Keeper {
	return &Keeper{record: record, policy: policy, clock: clk, logger: logger, poke: make(chan struct{}, 1)}
}

// Run keeps the keys until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := make(chan error, 1)
	go func() { watch <- k.record.Watch(ctx, func(secret *corev1.Secret) { k.heard(ctx, secret) }) }()
	timer := k.clock.NewTimer(retryInterval)
	defer timer.Stop()
	k.look()
	for {
		select {
		case err := <-watch:
			return err
		case <-k.poke:
		case <-timer.C():
		}
		wake, err := k.ensure(ctx, false)
		if err != nil {
			if ctx.Err() == nil {
				k.logger.ErrorContext(ctx, "look after signing keys", "error", err)
			}
			wake = k.clock.Now().Add(retryInterval)
		}
		timer.Reset(max(wake.Sub(k.clock.Now()), time.Second))
	}
}

// Rotate makes a new key now. It signs as soon as all replicas have heard of it.
func (k *Keeper) Rotate(ctx context.Context) error {
	_, err := k.ensure(ctx, true)
	return err
}

// ensure brings the Secret to what it should be, and returns when to look again.
func (k *Keeper) ensure(ctx context.Context, rotate bool) (wake time.Time, err error) {
	err = k.record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		var have set
		if data, ok := secret.Data[dataKey]; ok {
			var err error
			if have, err = parse(data); err != nil {
				return false, err
			}
		}
		asked := rotationAsked(secret)
		want, next, err := have.next(k.clock.Now(), k.policy, rotate || asked)
		if err != nil {
			return false, err
		}
		wake = next
		if want.equal(have) {
			return false, nil
		}
		if secret.Data[dataKey], err = want.marshal(); err != nil {
			return false, err
		}
		if asked {
			secret.Annotations[annotationRotated] = secret.Annotations[AnnotationRotate]
		}
		newest := want[len(want)-1]
		k.logger.InfoContext(ctx, "signing keys change", "keys", len(want), "newest", newest.ID, "signsFrom", newest.SignsFrom)
		return true, nil
	})
	return wake, err
}

// heard takes over what the Secret says. A Secret that cannot be read changes nothing: a damaged one must not end every
// session.
func (k *Keeper) heard(ctx context.Context, secret *corev1.Secret) {
	if secret == nil {
		k.logger.WarnContext(ctx, "signing keys were deleted: every token is refused")
		k.keys.Store(nil)
		k.look()
		return
	}
	keys, err := parse(secret.Data[dataKey])
	if err != nil {
		k.logger.ErrorContext(ctx, "keep the signing keys as they were", "error", err)
		return
	}
	k.keys.Store(&keys)
	k.look() // when to look again has changed, or a rotation is asked for
}

func rotationAsked(secret *corev1.Secret) bool {
	asked := secret.Annotations[AnnotationRotate]
	return asked != "" && asked != secret.Annotations[annotationRotated]
}

// look makes Run look after the keys at once.
func (k *Keeper) look() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

func (k *Keeper) known() set {
	if keys := k.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// Ready says whether tokens can be signed.
func (k *Keeper) Ready() bool {
	_, ok := k.known().signing(k.clock.Now())
	return ok
}

// Signing returns the key to sign with, and its ID.
func (k *Keeper) Signing() (string, *ecdsa.PrivateKey, error) {
	key, ok := k.known().signing(k.clock.Now())
	if !ok {
		return "", nil, fmt.Errorf("sign: %w", ErrNoKeys)
	}
	return key.ID, key.private, nil
}

// Verifying returns the public key of this ID, if its signatures count.
func (k *Keeper) Verifying(id string) (*ecdsa.PublicKey, bool) {
	keys := k.known()
	for i, key := range keys {
		if key.ID != id {
			continue
		}
		until, ends := keys.verifiesUntil(i, k.policy)
		return &key.private.PublicKey, !ends || k.clock.Now().Before(until)
	}
	return nil, false
}

// Public are all keys that verify, for anybody to verify with.
func (k *Keeper) Public() jose.JSONWebKeySet {
	public := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range k.known().verifying(k.clock.Now(), k.policy) {
		public.Keys = append(public.Keys, jose.JSONWebKey{Key: &key.private.PublicKey, KeyID: key.ID, Algorithm: string(jose.ES256), Use: "sig"})
	}
	return public
}
