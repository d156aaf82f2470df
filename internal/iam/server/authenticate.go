package server

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/session"
	"plasmacloud.io/plasmacloud/internal/iam/token"
)

// question is the part of a TokenReview that is read.
type question struct {
	metav1.TypeMeta `json:",inline"`
	Spec            struct {
		Token string `json:"token"`
	} `json:"spec"`
}

// answer is a TokenReview that says what was asked for, and no more.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	Status          answerStatus `json:"status"`
}

type answerStatus struct {
	Authenticated bool                       `json:"authenticated"`
	User          *authenticationv1.UserInfo `json:"user,omitempty"`
	Error         string                     `json:"error,omitempty"`
}

// authenticate judges a token for an API server, which proves by its certificate that it is one.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r)
	if err != nil {
		return err
	}
	var request question
	if err := decode(r, &request); err != nil {
		return err
	}
	// The two versions have the same form; an API server whose flags do not ask for v1 sends the older one.
	known := request.APIVersion == authenticationv1.SchemeGroupVersion.String() ||
		request.APIVersion == authenticationv1beta1.SchemeGroupVersion.String()
	if !known || request.Kind != "TokenReview" {
		return &session.Failure{Code: http.StatusBadRequest, Message: "this is no TokenReview of authentication.k8s.io/v1"}
	}
	if err := s.Ready(); err != nil {
		return err
	}
	status := s.Reviewer.Review(request.Spec.Token, scope)
	s.Metrics.reviewed(token.IsAccess(request.Spec.Token), status.Authenticated)
	reply := answer{TypeMeta: request.TypeMeta, Status: answerStatus{Authenticated: status.Authenticated, Error: status.Error}}
	if status.Authenticated {
		reply.Status.User = &status.User
	}
	return write(w, http.StatusOK, reply)
}

// scope is what the API server that asks is responsible for, by its certificate.
func (s *Server) scope(r *http.Request) (review.Scope, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return review.Scope{}, &session.Failure{Code: http.StatusUnauthorized, Message: "a client certificate is needed"}
	}
	cert := r.TLS.VerifiedChains[0][0]
	if s.Revoked(cert) {
		return review.Scope{}, &session.Failure{Code: http.StatusUnauthorized, Message: "the client certificate was revoked"}
	}
	client, ok := authority.ClientOf(cert)
	if !ok {
		return review.Scope{}, &session.Failure{Code: http.StatusForbidden, Message: "the client certificate is not of an API server"}
	}
	return review.Scope{Audience: client.Name, Organization: client.Organization, Project: client.Project}, nil
}
