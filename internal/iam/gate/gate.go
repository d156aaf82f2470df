// Package gate lets people through to what the platform serves besides its Kubernetes API. Whose token a request bears, and
// what they may do, is for that API to say; a refusal looks as one of its own.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Gate asks the management API.
type Gate struct{ API kubernetes.Interface }

// Authenticate tells whose token a request bears.
func (g Gate) Authenticate(ctx context.Context, r *http.Request) (authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	unknown := apierrors.NewUnauthorized("log in with `cloud login`")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return authenticationv1.UserInfo{}, unknown
	}
	review, err := g.API.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimSpace(token)},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("ask whose token it is: %w", err)
	}
	if !review.Status.Authenticated {
		return authenticationv1.UserInfo{}, unknown
	}
	return review.Status.User, nil
}

// Allowed tells whether somebody may do something.
func (g Gate) Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := g.API.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra, ResourceAttributes: &what,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask what %s may do: %w", user.Username, err)
	}
	return review.Status.Allowed, nil
}

// Refuse answers with what is wrong.
func Refuse(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	content, err := json.Marshal(status)
	if err != nil {
		http.Error(w, status.Message, int(status.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(content) // to a client that may be gone
}
