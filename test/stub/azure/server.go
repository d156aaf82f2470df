// Package azure is a stub of Azure: as much of Resource Manager as the configurations below /terraform/azure use, with
// the login and the metadata that lead there, in memory. Resources are documents by path, as they are in Azure itself;
// the stub adds what Azure would. Like the stub of AWS it takes its time, refuses what is in use, counts, and remembers
// requests that it does not know. The provider talks TLS only: serve it so.
package azure

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// Config is how the stub behaves.
type Config struct {
	Subscription string // zeros if empty
	Tenant       string // zeros if empty
	Delay        time.Duration
	Endpoint     string // host name of all clusters' APIs
	CA           string // of the endpoint, PEM in base64
	Now          func() time.Time
}

// document is a resource, or a part of one.
type document = ledger.Document

// Server is the stub. Its resources are by ID in lower case: Azure does not care.
type Server struct {
	*ledger.Book
	config Config
}

const zeros = "00000000-0000-0000-0000-000000000000"

// New makes an empty subscription.
func New(config Config) *Server {
	if config.Subscription == "" {
		config.Subscription = zeros
	}
	if config.Tenant == "" {
		config.Tenant = zeros
	}
	if config.Endpoint == "" {
		config.Endpoint = "stub.westeurope.azmk8s.io"
	}
	if config.CA == "" {
		config.CA = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Server{Book: ledger.NewBook(config.Delay, config.Now), config: config}
}

// answer is what goes back.
type answer struct {
	status int
	body   any
	header map[string]string
}

func refuse(status int, code, format string, args ...any) *answer {
	return &answer{status: status, body: document{"error": document{"code": code, "message": fmt.Sprintf(format, args...)}}}
}

// request is one for a resource.
type request struct {
	*http.Request
	path string // as it was sent
	key  string // in lower case
	body document
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	req := &request{Request: r, path: strings.TrimSuffix(r.URL.Path, "/"), body: document{}}
	req.key = strings.ToLower(req.path)
	if r.Body != nil && strings.Contains(r.Header.Get("Content-Type"), "json") && r.ContentLength != 0 {
		if err := json.NewDecoder(r.Body).Decode(&req.body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.Count(r.Method + " " + r.URL.Path)
	s.Settle()
	reply := s.answer(req)
	if reply == nil {
		line := r.Method + " " + r.URL.Path
		s.Missing(line)
		reply = refuse(http.StatusNotImplemented, "StubUnknown", "the stub does not know %s", line)
	}
	for name, value := range reply.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.status)
	if reply.body != nil {
		_ = json.NewEncoder(w).Encode(reply.body) // to a client that may be gone
	}
}

func (s *Server) answer(r *request) *answer {
	if reply := s.login(r); reply != nil {
		return reply
	}
	if s.Revoked() || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return refuse(http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	}
	line := r.Method + " " + r.URL.Path
	if fault := s.Spoilt(line); fault != nil {
		return refuse(fault.Status, "Spoilt", "spoilt")
	}
	if id, ok := strings.CutPrefix(r.key, "/operations/"); ok {
		return s.operation(id)
	}
	if reply := s.lookup(r); reply != nil {
		return reply
	}
	return s.resource(r)
}

// login answers for the metadata of the cloud, and hands out tokens to everybody.
func (s *Server) login(r *request) *answer {
	base := "https://" + r.Host
	switch {
	case r.key == "/metadata/endpoints":
		return &answer{status: http.StatusOK, body: document{
			"name": "AzureCloud", "resourceManager": base + "/", "graph": "https://graph.windows.net/", "microsoftGraphResourceId": base + "/", "portal": base, "gallery": base + "/",
			"authentication": document{"loginEndpoint": base + "/", "audiences": []any{base + "/"}, "tenant": "common", "identityProvider": "AAD"},
			"suffixes":       document{"storage": "core.windows.net", "keyVaultDns": "vault.azure.net", "acrLoginServer": "azurecr.io", "sqlServerHostname": "database.windows.net"},
		}}
	case strings.HasSuffix(r.key, "/v2.0/.well-known/openid-configuration"):
		tenant := base + "/" + s.config.Tenant
		return &answer{status: http.StatusOK, body: document{
			"issuer": tenant + "/v2.0", "token_endpoint": tenant + "/oauth2/v2.0/token", "authorization_endpoint": tenant + "/oauth2/v2.0/authorize",
		}}
	case strings.HasSuffix(r.key, "/oauth2/v2.0/token"):
		if s.Revoked() {
			return &answer{status: http.StatusUnauthorized, body: document{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}}
		}
		claims, err := json.Marshal(document{"oid": zeros, "tid": s.config.Tenant, "appid": zeros, "exp": s.config.Now().Add(time.Hour).Unix()})
		if err != nil {
			return refuse(http.StatusInternalServerError, "Stub", "%v", err)
		}
		part := base64.RawURLEncoding.EncodeToString
		return &answer{status: http.StatusOK, body: document{"token_type": "Bearer", "expires_in": 3600, "access_token": part([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + part(claims) + "." + part([]byte("stub"))}}
	case strings.HasPrefix(r.key, "/v1.0/serviceprincipals"):
		return &answer{status: http.StatusOK, body: document{"value": []any{document{"id": zeros, "appId": zeros}}}}
	}
	return nil
}

// operation tells how far one has come.
func (s *Server) operation(name string) *answer {
	o := s.Operation(name)
	switch {
	case o == nil:
		return refuse(http.StatusNotFound, "NotFound", "there is no operation %s", name)
	case !o.Done():
		return &answer{status: http.StatusOK, body: document{"id": name, "name": name, "status": "InProgress"}, header: map[string]string{"Retry-After": "1"}}
	}
	return &answer{status: http.StatusOK, body: document{"id": name, "name": name, "status": "Succeeded"}}
}

// begin begins an operation, and says where to ask for it.
func (s *Server) begin(r *request, done func()) map[string]string {
	url := "https://" + r.Host + "/operations/" + s.Begin(r.key, done).Name + "?api-version=2020-01-01"
	return map[string]string{"Azure-AsyncOperation": url, "Retry-After": "1"}
}
