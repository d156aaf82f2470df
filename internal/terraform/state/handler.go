package state

import (
	"bytes"
	"crypto/md5" //nolint:gosec // what tofu sends along; a check of transport, not of trust
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// maxBody is the largest state that is accepted.
const maxBody = 64 << 20

// The methods of the protocol that HTTP does not have itself.
const (
	methodLock   = "LOCK"
	methodUnlock = "UNLOCK"
)

// Handler serves states at /<stack>: GET, POST, DELETE, LOCK and UNLOCK, as tofu's `http` backend asks for them.
type Handler struct {
	backend    *Backend
	authorizer Authorizer
	log        *slog.Logger
	mux        *http.ServeMux
}

// NewHandler serves the backend's states to whom the authorizer lets in.
func NewHandler(backend *Backend, authorizer Authorizer, log *slog.Logger) *Handler {
	h := &Handler{backend: backend, authorizer: authorizer, log: log, mux: http.NewServeMux()}
	for method, serve := range map[string]func(r *http.Request, stack string) ([]byte, error){
		http.MethodGet:    h.get,
		http.MethodPost:   h.post,
		http.MethodDelete: h.delete,
		methodLock:        h.lock,
		methodUnlock:      h.unlock,
	} {
		h.mux.HandleFunc(method+" /{stack}", func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, serve) })
	}
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// serve does what all requests have in common: who asks, and what became of it.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, do func(*http.Request, string) ([]byte, error)) {
	stack := r.PathValue("stack")
	if err := ValidStack(stack); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := h.authorizer.Authorize(r, stack); err != nil {
		status := http.StatusForbidden
		if errors.Is(err, ErrUnauthenticated) {
			w.Header().Set("WWW-Authenticate", `Basic realm="state"`)
			status = http.StatusUnauthorized
		}
		h.log.WarnContext(r.Context(), "state refused", "stack", stack, "method", r.Method, "error", err)
		http.Error(w, err.Error(), status)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	answer, err := do(r, stack)
	if err != nil {
		h.fail(w, r, stack, err)
		return
	}
	if r.Method != http.MethodGet {
		h.log.InfoContext(r.Context(), "state changed", "stack", stack, "method", r.Method)
	}
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
	}
	if _, err := w.Write(answer); err != nil {
		h.log.WarnContext(r.Context(), "state not delivered", "stack", stack, "error", err)
	}
}

// fail turns an error into the status that tofu understands.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, stack string, err error) {
	var locked *LockedError
	var large *http.MaxBytesError
	status := http.StatusInternalServerError
	switch {
	case errors.As(err, &locked):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusLocked)
		if err := json.NewEncoder(w).Encode(locked.Holder); err != nil {
			h.log.WarnContext(r.Context(), "lock not described", "stack", stack, "error", err)
		}
		return
	case errors.Is(err, ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, ErrRefused), errors.Is(err, ErrConflict):
		status = http.StatusConflict
	case errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
	default:
		h.log.ErrorContext(r.Context(), "state failed", "stack", stack, "method", r.Method, "error", err)
		http.Error(w, "the state's store failed", status)
		return
	}
	if status != http.StatusNotFound {
		h.log.WarnContext(r.Context(), "state refused", "stack", stack, "method", r.Method, "error", err)
	}
	http.Error(w, err.Error(), status)
}

func (h *Handler) get(r *http.Request, stack string) ([]byte, error) {
	return h.backend.Get(r.Context(), stack)
}

func (h *Handler) post(r *http.Request, stack string) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if want := r.Header.Get("Content-MD5"); want != "" {
		sum := md5.Sum(data) //nolint:gosec // as above
		if base64.StdEncoding.EncodeToString(sum[:]) != want {
			return nil, fmt.Errorf("%w: the body was damaged on its way", ErrInvalid)
		}
	}
	return nil, h.backend.Put(r.Context(), stack, r.URL.Query().Get("ID"), data)
}

func (h *Handler) delete(r *http.Request, stack string) ([]byte, error) {
	return nil, h.backend.Delete(r.Context(), stack)
}

func (h *Handler) lock(r *http.Request, stack string) ([]byte, error) {
	lock, err := readLock(r)
	if err != nil {
		return nil, err
	}
	return nil, h.backend.Lock(r.Context(), stack, lock)
}

func (h *Handler) unlock(r *http.Request, stack string) ([]byte, error) {
	lock, err := readLock(r)
	if err != nil {
		return nil, err
	}
	return nil, h.backend.Unlock(r.Context(), stack, lock.ID)
}

func readLock(r *http.Request) (Lock, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return Lock{}, err
	}
	var lock Lock
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&lock); err != nil {
		return Lock{}, fmt.Errorf("%w: this is no lock", ErrInvalid)
	}
	return lock, nil
}
