package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plasmacloud.io/plasmacloud/internal/iam/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

type noKeys struct{}

func (noKeys) Public() jose.JSONWebKeySet { return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}} }

func newServer(t *testing.T, ready func() error) (*Server, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry, Gauges{
		Objects:            func() map[string]int { return map[string]int{"users": 3} },
		SigningKeys:        func() int { return 2 },
		CertificateExpires: func() time.Time { return time.Unix(1000, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Issuer: "https://iam.example:3000", Sessions: session.New(session.Config{}), Keys: noKeys{}, Ready: ready,
		Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, registry
}

func get(s *Server, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	s.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

func TestDiscoverySaysWhereTheKeysAre(t *testing.T) {
	s, _ := newServer(t, func() error { return nil })
	answer := get(s, "/.well-known/openid-configuration")
	for _, want := range []string{`"issuer":"https://iam.example:3000"`, `"jwks_uri":"https://iam.example:3000/openid/v1/jwks"`, `"id_token_signing_alg_values_supported":["ES256"]`} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s is missing: %s", want, answer.Body)
		}
	}
	if answer.Header().Get("Cache-Control") != "public, max-age=300" || get(s, wire.PathKeys).Body.String() != `{"keys":[]}` {
		t.Errorf("%v %s", answer.Header(), get(s, wire.PathKeys).Body)
	}
}

func TestNothingIsAnsweredBeforeTheServiceIsReady(t *testing.T) {
	s, _ := newServer(t, func() error { return errors.New("not yet") })
	for path, want := range map[string]int{
		wire.PathHealth: http.StatusOK, wire.PathReady: http.StatusServiceUnavailable, wire.PathKeys: http.StatusServiceUnavailable,
		wire.PathWhoami: http.StatusServiceUnavailable, wire.PathDiscovery: http.StatusOK,
	} {
		answer := get(s, path)
		if answer.Code != want || strings.Contains(answer.Body.String(), "not yet") {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
		if want == http.StatusServiceUnavailable && answer.Header().Get("Retry-After") == "" {
			t.Errorf("%s: nobody is told to come again", path)
		}
	}
}

func TestAuthenticateNeedsTLS(t *testing.T) {
	s, _ := newServer(t, func() error { return nil })
	for _, state := range []*tls.ConnectionState{nil, {}} {
		request := httptest.NewRequest(http.MethodPost, wire.PathAuthenticate, strings.NewReader("{}"))
		request.TLS = state
		recorder := httptest.NewRecorder()
		s.Handler().ServeHTTP(recorder, request)
		if recorder.Code != http.StatusUnauthorized {
			t.Errorf("%v: %d", state, recorder.Code)
		}
	}
}

func TestAddressesAreCountedByNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "@", "x:1": "x",
	} {
		if got := address(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s is counted as %s, want %s", remote, got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	s, registry := newServer(t, func() error { return nil })
	get(s, wire.PathHealth)
	s.Metrics.reviewed(true, true)
	s.Metrics.reviewed(false, false)
	s.Metrics.loggedIn(nil)
	s.Metrics.loggedIn(&session.Failure{Code: http.StatusUnauthorized})
	s.Metrics.loggedIn(&session.Failure{Code: http.StatusTooManyRequests})
	s.Metrics.loggedIn(errors.New("x"))
	const want = `
# HELP plasmacloud_iam_certificate_expiry_timestamp_seconds When the serving certificate expires.
# TYPE plasmacloud_iam_certificate_expiry_timestamp_seconds gauge
plasmacloud_iam_certificate_expiry_timestamp_seconds 1000
# HELP plasmacloud_iam_directory_objects Objects in the directory, by resource.
# TYPE plasmacloud_iam_directory_objects gauge
plasmacloud_iam_directory_objects{resource="users"} 3
# HELP plasmacloud_iam_logins_total Logins by outcome: accepted, refused, throttled or failed.
# TYPE plasmacloud_iam_logins_total counter
plasmacloud_iam_logins_total{result="accepted"} 1
plasmacloud_iam_logins_total{result="failed"} 1
plasmacloud_iam_logins_total{result="refused"} 1
plasmacloud_iam_logins_total{result="throttled"} 1
# HELP plasmacloud_iam_reviews_total Tokens judged for API servers, by kind of token and outcome.
# TYPE plasmacloud_iam_reviews_total counter
plasmacloud_iam_reviews_total{result="authenticated",token="access"} 1
plasmacloud_iam_reviews_total{result="refused",token="session"} 1
# HELP plasmacloud_iam_signing_keys Keys that verify tokens.
# TYPE plasmacloud_iam_signing_keys gauge
plasmacloud_iam_signing_keys 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"plasmacloud_iam_certificate_expiry_timestamp_seconds", "plasmacloud_iam_directory_objects", "plasmacloud_iam_logins_total",
		"plasmacloud_iam_reviews_total", "plasmacloud_iam_signing_keys"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "plasmacloud_iam_request_seconds"); err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	if _, err := NewMetrics(registry, Gauges{}); err == nil {
		t.Error("registered twice")
	}
}

func TestServeStopsGracefully(t *testing.T) {
	s, _ := newServer(t, func() error { return nil })
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	s.TLS = cert.TLS.Clone()
	client := cert.Client()
	cert.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	response, err := client.Get("https://" + listener.Addr().String() + wire.PathHealth)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("connections are accepted after the end")
	}
}
