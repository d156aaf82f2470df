package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/iam/store"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func policy() Policy {
	return Policy{
		RotateEvery: 24 * time.Hour, PublishAhead: time.Hour, PublishAheadOnDemand: 10 * time.Second,
		TokenLifetime: 12 * time.Hour, Skew: time.Minute,
	}
}

// evolve lets the keys follow the policy until a time, waking when they ask to, and returns what they are then.
func evolve(t *testing.T, keys set, from, until time.Time) set {
	t.Helper()
	now := from
	for {
		next, wake, err := keys.next(now, policy(), false)
		if err != nil {
			t.Fatal(err)
		}
		keys = next
		if !wake.After(now) {
			t.Fatalf("at %s the keys are to be looked at again at %s", now, wake)
		}
		if wake.After(until) {
			return keys
		}
		now = wake
	}
}

func TestKeysArePublishedBeforeTheySign(t *testing.T) {
	first := evolve(t, nil, start, start)
	if key, ok := first.signing(start); !ok || key.ID != first[0].ID || len(first) != 1 {
		t.Fatalf("the first key does not sign at once: %v", first)
	}
	published := evolve(t, first, start, start.Add(23*time.Hour))
	if len(published) != 2 {
		t.Fatalf("no second key an hour before it signs: %v", published)
	}
	if key, _ := published.signing(start.Add(24*time.Hour - time.Second)); key.ID != first[0].ID {
		t.Error("the second key signs too early")
	}
	if key, _ := published.signing(start.Add(24 * time.Hour)); key.ID != published[1].ID {
		t.Error("the second key does not sign when its time has come")
	}
}

func TestKeysVerifyUntilTheirLastTokenHasExpired(t *testing.T) {
	keys := evolve(t, nil, start, start.Add(30*time.Hour))
	first := keys[0]
	lastToken := start.Add(24*time.Hour + 12*time.Hour)
	if got := keys.verifying(lastToken, policy()); got[0].ID != first.ID {
		t.Error("a key is gone while its tokens are good")
	}
	keys = evolve(t, keys, start.Add(30*time.Hour), lastToken.Add(time.Minute))
	if keys[0].ID == first.ID {
		t.Error("a key is kept that verifies nothing")
	}
	if keys = evolve(t, keys, lastToken, start.Add(60*24*time.Hour)); len(keys) > 3 {
		t.Errorf("after two months there are %d keys", len(keys))
	}
}

func TestAKeyThatIsOverdueIsPublishedFirstAllTheSame(t *testing.T) {
	keys := evolve(t, nil, start, start)
	back := start.Add(10 * 24 * time.Hour) // the API server was away
	keys, _, err := keys.next(back, policy(), false)
	if err != nil {
		t.Fatal(err)
	}
	if key, _ := keys.signing(back); len(keys) != 2 || key.ID != keys[0].ID {
		t.Fatalf("the new key signs at once: %v", keys)
	}
	if got := keys[1].SignsFrom; !got.Equal(back.Add(time.Hour)) {
		t.Errorf("it signs from %s", got)
	}
}

func TestRotationOnDemandDoesNotWaitForTheSchedule(t *testing.T) {
	keys := evolve(t, nil, start, start.Add(23*time.Hour)) // the next one is published already
	now := start.Add(23 * time.Hour)
	rotated, _, err := keys.next(now, policy(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(rotated) != 3 {
		t.Fatalf("there are %d keys", len(rotated))
	}
	key, _ := rotated.signing(now.Add(10 * time.Second))
	if key.ID == keys[0].ID || key.ID == keys[1].ID {
		t.Error("the new key does not sign after ten seconds")
	}
	if key, _ := rotated.signing(now); key.ID != keys[0].ID {
		t.Error("the new key signs before the replicas have heard of it")
	}
}

func TestKeysSurviveTheirStorage(t *testing.T) {
	keys := evolve(t, nil, start, start.Add(30*time.Hour))
	data, err := keys.marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := parse(data)
	if err != nil || !read.equal(keys) || !read[1].SignsFrom.Equal(keys[1].SignsFrom) || !read[0].private.Equal(keys[0].private) {
		t.Fatalf("%v, %v", read, err)
	}
	swapped := bytes.ReplaceAll(data, []byte(keys[0].ID), []byte(keys[1].ID))
	for _, bad := range [][]byte{nil, []byte("x"), swapped, bytes.ReplaceAll(data, []byte("EC PRIVATE"), []byte("RSA PRIVATE"))} {
		if _, err := parse(bad); err == nil || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("got %v", err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", keys, keys[0], keys[0]); strings.Contains(text, "D:") || strings.Contains(text, "Curve") {
		t.Errorf("keys show: %s", text)
	}
}

func newKeeper(t *testing.T, client *fake.Clientset, clk *clocktesting.FakeClock) *Keeper {
	t.Helper()
	record := store.NewRecord(client, "plasmacloud-system", SecretName, store.KindSigningKeys)
	k := NewKeeper(record, policy(), clk, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestReplicasShareKeys(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	a, b := newKeeper(t, client, clk), newKeeper(t, client, clk)
	eventually(t, "both have a key", func() bool { return a.Ready() && b.Ready() })
	idA, private, err := a.Signing()
	if err != nil {
		t.Fatal(err)
	}
	if idB, _, _ := b.Signing(); idA != idB {
		t.Fatalf("they sign with %s and %s", idA, idB)
	}
	if public, ok := b.Verifying(idA); !ok || !public.Equal(private.Public()) {
		t.Error("the other replica does not verify")
	}
	if err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both publish the new key", func() bool { return len(a.Public().Keys) == 2 && len(b.Public().Keys) == 2 })
	if id, _, _ := b.Signing(); id != idA {
		t.Error("the new key signs too early")
	}
	clk.Step(10 * time.Second)
	newA, _, _ := a.Signing()
	newB, _, _ := b.Signing()
	if newA == idA || newA != newB {
		t.Errorf("after the rotation they sign with %s and %s", newA, newB)
	}
	if _, ok := b.Verifying(idA); !ok {
		t.Error("the old key does not verify any more")
	}
	clk.Step(12*time.Hour + time.Minute + time.Second)
	if _, ok := b.Verifying(idA); ok {
		t.Error("the old key verifies after its tokens have expired")
	}
	eventually(t, "the old key is removed", func() bool {
		for _, key := range b.known() {
			if key.ID == idA {
				return false
			}
		}
		return true
	})
}

func TestKeysRotateOnSchedule(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	k := newKeeper(t, client, clk)
	eventually(t, "there is a key", k.Ready)
	first, _, _ := k.Signing()
	eventually(t, "the keeper waits", clk.HasWaiters)
	clk.Step(23*time.Hour + time.Second)
	eventually(t, "the next key is published", func() bool { return len(k.Public().Keys) == 2 })
	clk.Step(time.Hour)
	if id, _, _ := k.Signing(); id == first {
		t.Error("the next key does not sign")
	}
}

func TestAnAnnotationAsksForRotation(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	k := newKeeper(t, client, clk)
	eventually(t, "there is a key", k.Ready)
	secrets := client.CoreV1().Secrets("plasmacloud-system")
	for i := range 2 {
		secret, err := secrets.Get(t.Context(), SecretName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[AnnotationRotate] = fmt.Sprint(i)
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "there is a further key", func() bool { return len(k.Public().Keys) == i+2 })
	}
}

func TestDeletingTheSecretRefusesEveryToken(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	k := newKeeper(t, client, clk)
	eventually(t, "there is a key", k.Ready)
	old, _, _ := k.Signing()
	if err := client.CoreV1().Secrets("plasmacloud-system").Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a new key", func() bool { id, _, err := k.Signing(); return err == nil && id != old })
	if _, ok := k.Verifying(old); ok {
		t.Error("the old key verifies")
	}
}

func TestKeysStayWhileTheAPIIsAwayOrTheSecretIsDamaged(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	k := newKeeper(t, client, clk)
	eventually(t, "there is a key", k.Ready)
	id, _, _ := k.Signing()
	secrets := client.CoreV1().Secrets("plasmacloud-system")
	secret, err := secrets.Get(t.Context(), SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data[dataKey] = []byte("damaged")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("*", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("the API server is away")
	})
	eventually(t, "the keeper waits", clk.HasWaiters)
	clk.Step(40 * 24 * time.Hour)
	if got, _, err := k.Signing(); err != nil || got != id {
		t.Errorf("signs with %q, %v", got, err)
	}
	if _, ok := k.Verifying(id); !ok {
		t.Error("the key does not verify")
	}
	if err := k.Rotate(t.Context()); err == nil {
		t.Error("a rotation that cannot be stored succeeds")
	}
}

func TestPublicKeysAreAJWKSWithoutSecrets(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(start)
	k := newKeeper(t, client, clk)
	if _, _, err := k.Signing(); err == nil && !k.Ready() {
		t.Error("signed without a key")
	}
	eventually(t, "there is a key", k.Ready)
	data, err := json.Marshal(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Keys []map[string]string }
	if err := json.Unmarshal(data, &document); err != nil || len(document.Keys) != 1 {
		t.Fatalf("%s: %v", data, err)
	}
	id, _, _ := k.Signing()
	for name, want := range map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "d": ""} {
		if got := document.Keys[0][name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}
