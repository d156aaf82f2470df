// Package gcp is a stub of Google Cloud: as much of Compute Engine, GKE, IAM, Resource Manager and Cloud Storage as the
// configurations below /terraform/gcp use, in memory. Each service is at a path of its own, such as /compute/, for the
// provider's custom endpoints. Like the stub of AWS it takes its time, refuses what is in use, counts, and remembers
// requests that it does not know.
package gcp

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
	Project  string        // stub-project if empty
	Delay    time.Duration // that operations take
	Endpoint string        // address of all clusters' APIs, without a scheme
	CA       string        // of the endpoint, PEM in base64
	Token    string        // that requests have to bear; any if empty
	Now      func() time.Time
}

// document is a resource, or a part of one.
type document = map[string]any

// Server is the stub.
type Server struct {
	config Config

	mu         sync.Mutex
	serial     int
	resources  map[string]document // by path, such as projects/p/global/networks/n
	operations map[string]*operation
	policies   map[string]document // IAM policies by what they are of
	created    map[string]int
	requests   map[string]int
	unknown    []string
	faults     []*Fault
	revoked    bool
}

// operation is something that takes its time; then it is done.
type operation struct {
	began  time.Time
	target string
	done   func()
}

// Fault spoils requests whose method and path contain a text, or all of them if it is empty.
type Fault struct {
	Request string
	Status  int
	Times   int
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
	return &Server{
		config: config, resources: map[string]document{}, operations: map[string]*operation{}, policies: map[string]document{},
		created: map[string]int{}, requests: map[string]int{},
	}
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

// Unknown are the requests that the stub had no answer to.
func (s *Server) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Inventory counts what exists, by kind, such as networks.
func (s *Server) Inventory() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	counts := map[string]int{}
	for path := range s.resources {
		counts[kindOf(path)]++
	}
	for _, policy := range s.policies {
		bindings, _ := policy["bindings"].([]any)
		if len(bindings) > 0 {
			counts["bindings"] += len(bindings)
		}
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
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.requests[r.Method+" "+req.service]++
	s.settle()
	answer, failed := s.answer(req)
	w.Header().Set("Content-Type", "application/json")
	if failed != nil {
		w.WriteHeader(failed.status)
		answer = document{"error": document{"code": failed.status, "message": failed.message, "errors": []any{document{"message": failed.message, "reason": "stub"}}}}
	}
	_ = json.NewEncoder(w).Encode(answer) // to a client that may be gone
}

func (s *Server) answer(r *request) (document, *failure) {
	if s.revoked || s.config.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.config.Token {
		return nil, refuse(http.StatusUnauthorized, "Request had invalid authentication credentials.")
	}
	line := r.Method + " " + r.URL.Path
	for i, fault := range s.faults {
		if !strings.Contains(line, fault.Request) {
			continue
		}
		if fault.Times--; fault.Times <= 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
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
	s.unknown = append(s.unknown, line)
	return nil, refuse(http.StatusNotImplemented, "the stub does not know %s", line)
}

// begin begins an operation; what it does is done when it ends.
func (s *Server) begin(target string, done func()) string {
	s.serial++
	name := fmt.Sprintf("operation-%d", s.serial)
	s.operations[name] = &operation{began: s.config.Now(), target: target, done: done}
	s.settle()
	return name
}

// settle ends the operations whose time has come, in the order in which they began.
func (s *Server) settle() {
	names := slices.SortedFunc(maps.Keys(s.operations), func(a, b string) int { return len(a)*1e9 - len(b)*1e9 + strings.Compare(a, b) })
	for _, name := range names {
		o := s.operations[name]
		if o.done != nil && !s.config.Now().Before(o.began.Add(s.config.Delay)) {
			o.done()
			o.done = nil
		}
	}
}

// make puts a new resource into the project.
func (s *Server) make(path string, resource document) {
	s.resources[path] = resource
	s.created[kindOf(path)]++
}

// users are the resources that refer to another one in a field.
func (s *Server) users(kind, field, path string) []string {
	var found []string
	for other, resource := range s.resources {
		if kindOf(other) != kind {
			continue
		}
		if reference, _ := resource[field].(string); reference != "" && strings.HasSuffix(reference, path) {
			found = append(found, other)
		}
	}
	return found
}
