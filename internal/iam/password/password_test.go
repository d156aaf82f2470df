package password

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func cheap() Params { return Params{Memory: 64, Iterations: 1, Parallelism: 1} }

func newHasher(t *testing.T, params Params) *Hasher {
	t.Helper()
	h, err := NewHasher(params, 2)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHashesVerifyTheirPasswordOnly(t *testing.T) {
	h := newHasher(t, cheap())
	hash, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Errorf("not the PHC form: %s", hash)
	}
	again, err := h.Hash(t.Context(), "correct horse")
	if err != nil || again == hash {
		t.Errorf("two hashes of a password are the same: %v", err)
	}
	for password, want := range map[string]bool{"correct horse": true, "correct horsf": false, "": false} {
		if got, err := h.Verify(t.Context(), password, hash); err != nil || got != want {
			t.Errorf("%q: %v, %v", password, got, err)
		}
	}
}

func TestDefaultCostsAreWhatOWASPAsksFor(t *testing.T) {
	h := newHasher(t, DefaultParams())
	hash, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("costs are %s", hash)
	}
	if ok, err := h.Verify(t.Context(), "correct horse", hash); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestNewPasswordsHaveALength(t *testing.T) {
	h := newHasher(t, cheap())
	for password, want := range map[string]error{
		"1234567":                        ErrTooShort,
		"ééééééé":                        ErrTooShort, // 14 bytes, 7 characters
		strings.Repeat("x", MaxLength+1): ErrTooLong,
	} {
		if _, err := h.Hash(t.Context(), password); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", len(password), err)
		}
	}
}

func TestWithoutAHashNothingIsAccepted(t *testing.T) {
	h := newHasher(t, cheap())
	for _, password := range []string{"", "decoy", "anything"} {
		if ok, err := h.Verify(t.Context(), password, ""); ok || err != nil {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
	}
}

func TestUnknownUsersTakeAsLongAsKnownOnes(t *testing.T) {
	h := newHasher(t, DefaultParams())
	hash, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	fastest := func(hash string) time.Duration {
		least := time.Hour
		for range 5 {
			start := time.Now()
			if _, err := h.Verify(t.Context(), "wrong password", hash); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	known, unknown := fastest(hash), fastest("")
	if unknown < known/3 || known < unknown/3 {
		t.Errorf("known %s, unknown %s", known, unknown)
	}
}

func TestDamagedOrCostlyHashesAreErrors(t *testing.T) {
	h := newHasher(t, cheap())
	good, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{
		"x", "$2a$10$abcdefghijklmnopqrstuv", good[:len(good)-4] + "!!!!",
		strings.Replace(good, "m=64", "m=4194304", 1),
		strings.Replace(good, "m=64", "m=1", 1),
		strings.Replace(good, "t=1", "t=0", 1),
		strings.Replace(good, "t=1", "t=1000", 1),
		strings.Replace(good, "p=1", "p=0", 1),
		strings.Replace(good, "p=1", "p=64", 1),
	} {
		ok, err := h.Verify(t.Context(), "correct horse", hash)
		if ok || err == nil {
			t.Errorf("%s: %v, %v", hash, ok, err)
		}
		if err != nil && strings.Contains(err.Error(), hash) {
			t.Errorf("the error shows the hash: %v", err)
		}
		if !h.Outdated(hash) {
			t.Errorf("%s is not outdated", hash)
		}
	}
}

func TestHashesOfOtherCostsAreOutdatedAndVerifyYet(t *testing.T) {
	old := newHasher(t, cheap())
	hash, err := old.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if old.Outdated(hash) {
		t.Error("a new hash is outdated")
	}
	changed := newHasher(t, Params{Memory: 128, Iterations: 1, Parallelism: 1})
	if !changed.Outdated(hash) {
		t.Error("a hash of other costs is not outdated")
	}
	if ok, err := changed.Verify(t.Context(), "correct horse", hash); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestHashersDoFewAtATime(t *testing.T) {
	h, err := NewHasher(cheap(), 1)
	if err != nil {
		t.Fatal(err)
	}
	h.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Verify(ctx, "correct horse", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-h.slots
	if _, err := h.Verify(t.Context(), "correct horse", ""); err != nil {
		t.Error(err)
	}
}

func TestHasherRefusesCostsOutOfBounds(t *testing.T) {
	for _, params := range []Params{{}, {Memory: 64, Iterations: 1}, {Memory: 4, Iterations: 1, Parallelism: 1}} {
		if _, err := NewHasher(params, 1); err == nil {
			t.Errorf("%+v was accepted", params)
		}
	}
}
