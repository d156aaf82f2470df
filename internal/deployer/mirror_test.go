package deployer

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

const stack = "shop.network.main"

// platformStates are the platform's own, which is away for some requests.
func platformStates(t *testing.T) (backend *state.Backend, away *atomic.Int32, connect func() *mirror) {
	t.Helper()
	store, err := state.NewDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := state.NewKeyring(bytes.Repeat([]byte{7}, state.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if backend, err = state.New(state.Config{Store: store, Keys: keys, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	tokens, err := state.NewTokens(bytes.Repeat([]byte{9}, state.KeySize), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	away = new(atomic.Int32)
	handler := state.NewHandler(backend, tokens, slog.New(slog.DiscardHandler))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Add(-1) >= 0 {
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return backend, away, func() *mirror {
		t.Helper()
		m, err := newMirror(server.URL+"/"+stack, tokens.Issue(stack, time.Hour), ca, Apply)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func stateWith(lineage string, serial int) []byte {
	return fmt.Appendf(nil, `{"version": 4, "terraform_version": "1.12.6", "serial": %d, "lineage": %q, "resources": [], "outputs": {"password": {"value": "hushhush"}}}`, serial, lineage)
}

func TestThePlatformHasACopyOfTheState(t *testing.T) {
	backend, away, connect := platformStates(t)
	m := connect()
	if err := m.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		raw       []byte
		overtaken bool
	}{
		{nil, false}, {[]byte(`{"version": 4, "serial": 0, "lineage": ""}`), false}, // none at first
		{stateWith("a", 3), false}, {stateWith("a", 7), true},
		{bytes.Replace(stateWith("a", 7), []byte(`"1.12.6"`), []byte(`"1.13.0"`), 1), false}, // as another engine writes it
		{bytes.Replace(stateWith("a", 7), []byte("hushhush"), []byte("another"), 1), true},
	} {
		away.Store(1)
		if overtaken, err := m.update(t.Context(), step.raw); err != nil || overtaken != step.overtaken {
			t.Fatalf("%s: %v, %v", step.raw, overtaken, err)
		}
	}
	if err := connect().hold(t.Context()); err == nil || !strings.Contains(err.Error(), "another deployer") {
		t.Errorf("two hold the lock: %v", err)
	}
	if err := m.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	record, err := backend.Describe(t.Context(), stack)
	if err != nil || record.Lock != nil || len(record.Versions) != 2 || record.Versions[1].Serial != 7 {
		t.Errorf("%+v, %v", record, err)
	}
	if err := backend.Delete(t.Context(), stack); err != nil {
		t.Error(err)
	}
}

func TestAStateThatIsNotWhatItWasIsRefused(t *testing.T) {
	_, _, connect := platformStates(t)
	m := connect()
	if err := m.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.update(t.Context(), stateWith("a", 7)); err != nil {
		t.Fatal(err)
	}
	for want, raw := range map[string][]byte{
		"is gone": nil, "something else": stateWith("b", 9), "its serial is 6, the platform has seen 7": stateWith("a", 6), "not JSON": []byte("hushhush"),
	} {
		if _, err := m.update(t.Context(), raw); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hushhush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestWhoWasReplacedCopiesNothing(t *testing.T) {
	backend, _, connect := platformStates(t)
	old, next := connect(), connect()
	if err := old.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := backend.Unlock(t.Context(), stack, old.lock.ID); err != nil { // as the platform does
		t.Fatal(err)
	}
	if _, err := old.update(t.Context(), stateWith("a", 1)); !errors.Is(err, ErrReplaced) {
		t.Errorf("without the lock: %v", err)
	}
	if err := next.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.update(t.Context(), stateWith("a", 1)); !errors.Is(err, ErrReplaced) {
		t.Errorf("with another's lock: %v", err)
	}
	if err := old.release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := next.update(t.Context(), stateWith("a", 2)); err != nil {
		t.Errorf("its lock was given back by another: %v", err)
	}
}

func TestOnlyLocksOfEarlierDeployersAreTakenAway(t *testing.T) {
	for _, test := range []struct {
		backend *terraform.Backend
		who     string
		left    bool
	}{
		{&terraform.Backend{Type: "s3"}, "nobody@deploy-1", true},
		{&terraform.Backend{Type: "gcs"}, "@deploy-2", true},
		{&terraform.Backend{Type: "s3"}, "ada@laptop", false},
		{&terraform.Backend{Type: "s3"}, "deploy-1@laptop", false},
		{&terraform.Backend{Type: "s3"}, "", false},
		{&terraform.Backend{Type: "pg"}, "nobody@deploy-1", false},
		{nil, "nobody@deploy-1", false},
	} {
		d := &deployment{order: &Order{Request: Request{Backend: test.backend}, Earlier: []string{"deploy-1", "deploy-2"}}}
		if have := d.left(&terraform.LockError{Who: test.who}); have != test.left {
			t.Errorf("%+v: %v", test, have)
		}
	}
}
