package gcp_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"plasmacloud.io/plasmacloud/internal/cloudapi/gcp"
)

// keyFile is one of a service account that names another place for tokens than Google's.
func keyFile(t *testing.T, key *rsa.PrivateKey, elsewhere string) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "platform@shop.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": elsewhere,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestATokenIsMadeWithTheKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed, err := jwt.ParseSigned(r.FormValue("assertion"), []jose.SignatureAlgorithm{jose.RS256})
		claims := struct {
			Issuer   string `json:"iss"`
			Audience string `json:"aud"`
			Scope    string `json:"scope"`
		}{}
		if err != nil || signed.Claims(&key.PublicKey, &claims) != nil || claims.Audience != "https://oauth2.googleapis.com/token" || !strings.Contains(claims.Scope, "cloud-platform https") {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"of %s","token_type":"Bearer","expires_in":3600}`, claims.Issuer)
	}))
	defer google.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key's owner chose where we go") }))
	defer elsewhere.Close()
	environment := map[string]string{"GOOGLE_CREDENTIALS": keyFile(t, key, elsewhere.URL), gcp.EndpointVariable: google.URL}
	token, err := gcp.Token(t.Context(), environment)
	if err != nil || token.Value != "of platform@shop.iam.gserviceaccount.com" || time.Until(token.Expires) < 50*time.Minute {
		t.Errorf("%q until %s, %v", token.Value, token.Expires, err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	environment["GOOGLE_CREDENTIALS"] = keyFile(t, other, elsewhere.URL)
	if _, err := gcp.Token(t.Context(), environment); err == nil || !strings.Contains(err.Error(), "400") || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("with another key: %v", err)
	}
}

func TestOtherCredentials(t *testing.T) {
	if token, err := gcp.Token(t.Context(), map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "ya29"}); err != nil || token.Value != "ya29" || !token.Expires.IsZero() {
		t.Errorf("%q, %v", token.Value, err)
	}
	for want, key := range map[string]string{
		"no key file":   "secret",
		"are federated": `{"type": "external_account", "credential_source": {"file": "/etc/shadow"}}`,
		"no key of a":   `{"type": "service_account", "private_key": 7}`,
	} {
		if _, err := gcp.Token(t.Context(), map[string]string{"GOOGLE_CREDENTIALS": key}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
