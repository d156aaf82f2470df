package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/iam/session"
	"plasmacloud.io/plasmacloud/internal/iam/token"
)

// decode reads the body of a request. What is wrong with it may be said: it is the caller's own.
func decode(r *http.Request, into any) error {
	data, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &session.Failure{Code: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is larger than %d bytes", tooLarge.Limit)}
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return &session.Failure{Code: http.StatusBadRequest, Message: "the request is not of the expected form"}
	}
	return nil
}

func write(w http.ResponseWriter, code int, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, err = w.Write(data)
	if err != nil {
		return &gone{err}
	}
	return nil
}

// gone says that the caller did not wait for the answer: there is nobody to tell.
type gone struct{ error }

func (g *gone) Unwrap() error { return g.error }

// fail answers with what went wrong: words for the caller where it is the caller's affair, and no more than that it is
// ours otherwise.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var caller *session.Failure
	var left *gone
	switch {
	case errors.As(err, &left):
		s.Logger.DebugContext(r.Context(), "write answer", "path", r.URL.Path, "error", err)
		return
	case errors.As(err, &caller):
	case errors.Is(err, token.ErrInvalid):
		caller = &session.Failure{Code: http.StatusUnauthorized, Message: err.Error()}
		w.Header().Set("WWW-Authenticate", "Bearer")
	default:
		s.Logger.ErrorContext(r.Context(), "answer request", "path", r.URL.Path, "error", err)
		caller = &session.Failure{Code: http.StatusServiceUnavailable, Message: "the identity service cannot answer at the moment: try again", RetryAfter: 1}
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Message: caller.Message, Reason: reason(caller.Code), Code: int32(caller.Code),
	}
	if caller.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(caller.RetryAfter))
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(caller.RetryAfter)}
	}
	if err := write(w, caller.Code, status); err != nil {
		s.Logger.DebugContext(r.Context(), "write answer", "path", r.URL.Path, "error", err)
	}
}

func reason(code int) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonRequestEntityTooLarge
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	default:
		return metav1.StatusReasonServiceUnavailable
	}
}
