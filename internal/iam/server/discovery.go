package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// keysMaxAge is how long the keys may be remembered, in seconds: far shorter than a new key is published before it
// signs.
const keysMaxAge = "300"

// discoveryDocument is the document of OpenID Connect discovery. What OpenID asks for beyond verifying tokens, an
// authorization endpoint, is not offered: people log in by other means.
func discoveryDocument(issuer string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"issuer":                                issuer,
		"jwks_uri":                              strings.TrimRight(issuer, "/") + wire.PathKeys,
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(jose.ES256)},
		"claims_supported": []string{
			"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "sid", "preferred_username", "email", "org_id", "project_id", "roles", "groups",
		},
	})
}

func (s *Server) openid(w http.ResponseWriter, _ *http.Request) error {
	return cacheable(w, "application/json", s.discovery)
}

func (s *Server) keys(w http.ResponseWriter, _ *http.Request) error {
	if err := s.Ready(); err != nil {
		return err
	}
	data, err := json.Marshal(s.Keys.Public())
	if err != nil {
		return err
	}
	return cacheable(w, "application/jwk-set+json", data)
}

func cacheable(w http.ResponseWriter, contentType string, data []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "public, max-age="+keysMaxAge)
	_, err := w.Write(data)
	return err
}
