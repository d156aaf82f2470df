// Package azure is a stub of Azure: as much of Resource Manager as the configurations below /terraform/azure use, with
// the login and the metadata that lead there, in memory. Resources are documents by path, as they are in Azure itself;
// the stub adds what Azure would. Like the stub of AWS it takes its time, refuses what is in use, counts, and remembers
// requests that it does not know. The provider talks TLS only: serve it so.
package azure

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
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
type document = map[string]any

// Server is the stub.
type Server struct {
	config Config

	mu         sync.Mutex
	serial     int
	resources  map[string]document // by ID in lower case: Azure does not care
	operations map[string]*operation
	created    map[string]int
	unknown    []string
	faults     []*Fault
	revoked    bool
}

type operation struct {
	began time.Time
	done  func()
}

// Fault spoils requests whose method and path contain a text, or all of them if it is empty.
type Fault struct {
	Request string
	Status  int
	Times   int
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
	return &Server{config: config, resources: map[string]document{}, operations: map[string]*operation{}, created: map[string]int{}}
}

// Unknown are the requests that the stub had no answer to.
func (s *Server) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Inventory counts what exists, by kind in lower case, such as virtualnetworks.
func (s *Server) Inventory() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	counts := map[string]int{}
	for path := range s.resources {
		counts[kindOf(path)]++
	}
	return counts
}

// Created counts what was ever made, by kind.
func (s *Server) Created() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.created)
}

// Spoil makes some requests fail.
func (s *Server) Spoil(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
}

// Revoke makes the credentials worthless, or good again.
func (s *Server) Revoke(revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = revoked
}

// Change alters resources behind everybody's back: drift.
func (s *Server) Change(kind string, change func(map[string]any)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := 0
	for path, resource := range s.resources {
		if kindOf(path) == kind {
			change(resource)
			changed++
		}
	}
	return changed
}

// kindOf is the last but one part of a path.
func kindOf(path string) string {
	parts := strings.Split(path, "/")
	return parts[len(parts)-2]
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
	s.mu.Lock()
	defer s.mu.Unlock()
	req := &request{Request: r, path: strings.TrimSuffix(r.URL.Path, "/"), body: document{}}
	req.key = strings.ToLower(req.path)
	if r.Body != nil && strings.Contains(r.Header.Get("Content-Type"), "json") && r.ContentLength != 0 {
		if err := json.NewDecoder(r.Body).Decode(&req.body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.settle()
	reply := s.answer(req)
	if reply == nil {
		line := r.Method + " " + r.URL.Path
		s.unknown = append(s.unknown, line)
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
	if s.revoked || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return refuse(http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	}
	line := r.Method + " " + r.URL.Path
	for i, fault := range s.faults {
		if !strings.Contains(line, fault.Request) {
			continue
		}
		if fault.Times--; fault.Times <= 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
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
	case strings.HasSuffix(r.key, "/oauth2/v2.0/token"):
		if s.revoked {
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
func (s *Server) operation(id string) *answer {
	o := s.operations[id]
	switch {
	case o == nil:
		return refuse(http.StatusNotFound, "NotFound", "there is no operation %s", id)
	case o.done != nil:
		return &answer{status: http.StatusOK, body: document{"id": id, "name": id, "status": "InProgress"}, header: map[string]string{"Retry-After": "1"}}
	}
	return &answer{status: http.StatusOK, body: document{"id": id, "name": id, "status": "Succeeded"}}
}

// begin begins an operation; what it does is done when it ends.
func (s *Server) begin(r *request, done func()) map[string]string {
	s.serial++
	id := fmt.Sprintf("op-%d", s.serial)
	s.operations[id] = &operation{began: s.config.Now(), done: done}
	s.settle()
	url := "https://" + r.Host + "/operations/" + id + "?api-version=2020-01-01"
	return map[string]string{"Azure-AsyncOperation": url, "Retry-After": "1"}
}

// settle ends the operations whose time has come.
func (s *Server) settle() {
	for _, o := range s.operations {
		if o.done != nil && !s.config.Now().Before(o.began.Add(s.config.Delay)) {
			o.done()
			o.done = nil
		}
	}
}
