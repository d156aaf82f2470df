package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

// Records are the operations that deployers work on.
type Records interface {
	// Order returns what is to be done, with the credentials of its account. ErrReplaced: not by this one.
	Order(ctx context.Context, stack string, turn Turn) (*Order, error)
	// Report writes down how far it is. ErrReplaced: not by this one.
	Report(ctx context.Context, stack string, report Report) error
}

// maxReport is how large a report may be: plans of large stacks are long.
const maxReport = 512 << 10

// NewService serves deployers: GET /<stack>?id=…&attempt=… is the order, PUT /<stack> takes a report. They authenticate
// with the token of their stack's state.
func NewService(records Records, authorizer state.Authorizer, log *slog.Logger) http.Handler {
	s := &service{records: records, authorizer: authorizer, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{stack}", s.order)
	mux.HandleFunc("PUT /{stack}", s.report)
	return mux
}

type service struct {
	records    Records
	authorizer state.Authorizer
	log        *slog.Logger
}

// admit tells which stack a request is about, if its token is for that.
func (s *service) admit(w http.ResponseWriter, r *http.Request) (string, bool) {
	stack := r.PathValue("stack")
	err := s.authorizer.Authorize(r, stack)
	switch {
	case err == nil:
		return stack, true
	case errors.Is(err, state.ErrUnauthenticated):
		http.Error(w, "no credentials given", http.StatusUnauthorized)
	default:
		s.log.WarnContext(r.Context(), "deployer refused", "stack", stack, "error", err)
		http.Error(w, "these credentials are not for this stack", http.StatusForbidden)
	}
	return "", false
}

func (s *service) order(w http.ResponseWriter, r *http.Request) {
	stack, ok := s.admit(w, r)
	if !ok {
		return
	}
	attempt, err := strconv.Atoi(r.URL.Query().Get("attempt"))
	if err != nil {
		http.Error(w, "attempt is no number", http.StatusBadRequest)
		return
	}
	order, err := s.records.Order(r.Context(), stack, Turn{ID: r.URL.Query().Get("id"), Attempt: attempt})
	if err != nil {
		s.fail(w, r, stack, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(order); err != nil {
		s.log.WarnContext(r.Context(), "order not sent", "stack", stack, "error", err)
	}
}

func (s *service) report(w http.ResponseWriter, r *http.Request) {
	stack, ok := s.admit(w, r)
	if !ok {
		return
	}
	var report Report
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport)).Decode(&report); err != nil {
		http.Error(w, "this is no report", http.StatusBadRequest)
		return
	}
	if err := s.records.Report(r.Context(), stack, report); err != nil {
		s.fail(w, r, stack, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) fail(w http.ResponseWriter, r *http.Request, stack string, err error) {
	if errors.Is(err, ErrReplaced) {
		http.Error(w, ErrReplaced.Error(), http.StatusConflict)
		return
	}
	s.log.WarnContext(r.Context(), "deployer not served", "stack", stack, "error", err)
	http.Error(w, "try again", http.StatusServiceUnavailable)
}
