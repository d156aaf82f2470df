// Package gcp is a stub of Google Cloud: as much of Compute Engine, GKE, IAM, Resource Manager and Cloud Storage as the
// configurations below /terraform/gcp use, in memory. Each service is at a path of its own, such as /compute/, for the
// provider's custom endpoints. Like the stub of AWS it takes its time, refuses what is in use, counts, and remembers
// requests that it does not know.
package gcp

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
	Project  string        // stub-project if empty
	Delay    time.Duration // that operations take
	Endpoint string        // address of all clusters' APIs, without a scheme
	CA       string        // of the endpoint, PEM in base64
	Token    string        // that requests have to bear; any if empty
	Now      func() time.Time
}

// document is a resource, or a part of one.
type document = ledger.Document

// Server is the stub.
type Server struct {
	*ledger.Book
	config   Config
	policies map[string]document // IAM policies by what they are of
}

// New makes an empty project.
func New(config Config) *Server {
	if config.Project == "" {
		config.Project = "stub-project"
	}
	if config.Endpoint == "" {
		config.Endpoint = "203.0.113.1"
	}
	if config.CA == "" {
		config.CA = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Server{Book: ledger.NewBook(config.Delay, config.Now), config: config, policies: map[string]document{}}
}

// Environment points the provider to the stub at an address such as http://127.0.0.1:8080.
func Environment(address string) map[string]string {
	return map[string]string{
		"GOOGLE_COMPUTE_CUSTOM_ENDPOINT":             address + "/compute/v1/",
		"GOOGLE_CONTAINER_CUSTOM_ENDPOINT":           address + "/container/v1/",
		"GOOGLE_IAM_BETA_CUSTOM_ENDPOINT":            address + "/iam/v1/",
		"GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT":    address + "/resourcemanager/v1/",
		"GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT": address + "/resourcemanager/v3/",
		"GOOGLE_STORAGE_CUSTOM_ENDPOINT":             address + "/storage/v1/",
	}
}

// SetToken makes another token the one that requests have to bear: the old one is worth nothing any more.
func (s *Server) SetToken(token string) {
	s.Lock()
	defer s.Unlock()
	s.config.Token = token
}

// Inventory counts what exists, by kind, such as networks.
func (s *Server) Inventory() map[string]int {
	counts := s.Book.Inventory()
	s.Lock()
	defer s.Unlock()
	for _, policy := range s.policies {
		bindings, _ := policy["bindings"].([]any)
		if len(bindings) > 0 {
			counts["bindings"] += len(bindings)
		}
	}
	return counts
}

// failure is an answer that says no.
type failure struct {
	status  int
	message string
}

func refuse(status int, format string, args ...any) *failure {
	return &failure{status, fmt.Sprintf(format, args...)}
}

func notFound(path string) *failure { return refuse(http.StatusNotFound, "%s was not found", path) }

// request is one for a service: /<service>/<version>/<path>.
type request struct {
	*http.Request
	service string
	path    string
	verb    string // after a colon
	body    document
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	parts := strings.SplitN(strings.Trim(r.URL.Path, "/"), "/", 3)
	req := &request{Request: r, service: parts[0], body: document{}}
	if len(parts) == 3 {
		req.path, req.verb, _ = strings.Cut(parts[2], ":")
	}
	if r.Body != nil && r.ContentLength != 0 {
		if err := json.NewDecoder(r.Body).Decode(&req.body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.Count(r.Method + " " + r.URL.Path)
	s.Settle()
	answer, failed := s.answer(req)
	w.Header().Set("Content-Type", "application/json")
	if failed != nil {
		w.WriteHeader(failed.status)
		answer = document{"error": document{"code": failed.status, "message": failed.message, "errors": []any{document{"message": failed.message, "reason": "stub"}}}}
	}
	_ = json.NewEncoder(w).Encode(answer) // to a client that may be gone
}

func (s *Server) answer(r *request) (document, *failure) {
	if s.Revoked() || s.config.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.config.Token {
		return nil, refuse(http.StatusUnauthorized, "Request had invalid authentication credentials.")
	}
	line := r.Method + " " + r.URL.Path
	if fault := s.Spoilt(line); fault != nil {
		return nil, refuse(fault.Status, "spoilt")
	}
	serve := map[string]func(*request) (document, *failure){
		"compute": s.compute, "container": s.container, "iam": s.iam, "resourcemanager": s.resourceManager, "storage": s.storage,
	}[r.service]
	if serve != nil {
		if answer, failed := serve(r); answer != nil || failed != nil {
			return answer, failed
		}
	}
	s.Missing(line)
	return nil, refuse(http.StatusNotImplemented, "the stub does not know %s", line)
}

// users are the resources that refer to another one in a field.
func (s *Server) users(kind, field, path string) []string {
	var found []string
	for other, resource := range s.Resources {
		if ledger.KindOf(other) != kind {
			continue
		}
		if reference, _ := resource[field].(string); reference != "" && strings.HasSuffix(reference, path) {
			found = append(found, other)
		}
	}
	return found
}
