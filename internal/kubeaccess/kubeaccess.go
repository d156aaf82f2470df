// Package kubeaccess hands out access to clusters whose credentials are not the platform's to keep: those in clouds. Who may
// read the administrator's kubeconfig of a cluster of another type, which is a Secret, may have a token of one of these,
// which is made for them from the credentials of the cluster's account. Every token is logged, but not what it is.
package kubeaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/gate"
	"plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
)

// timeout of one answer: the cloud is asked meanwhile.
const timeout = time.Minute

// Config is what a Service works with.
type Config struct {
	Gate gate.Gate
	// Clusters are read from here.
	Clusters client.Reader
	// Access makes access to a cluster in a cloud.
	Access func(ctx context.Context, cluster *v1alpha1.Cluster) (*wire.Access, error)
	Log    *slog.Logger
}

// Service is an http.Handler for wire.Pattern.
type Service struct{ Config }

// New returns a Service.
func New(config Config) *Service { return &Service{config} }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	access, err := s.answer(ctx, r)
	if err != nil {
		gate.Refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(access) // to a client that may be gone
}

func (s *Service) answer(ctx context.Context, r *http.Request) (*wire.Access, error) {
	user, err := s.Gate.Authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	namespace, name := v1alpha1.NamespacePrefix+r.PathValue("project"), r.PathValue("name")
	secret := v1alpha1.AdminKubeconfigSecret(name)
	allowed, err := s.Gate.Allowed(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "get", Version: corev1.SchemeGroupVersion.Version, Resource: "secrets", Namespace: namespace, Name: secret,
	})
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, apierrors.NewForbidden(corev1.Resource("secrets"), secret, fmt.Errorf("user %q may not read kubeconfigs of this project", user.Username))
	}
	cluster := &v1alpha1.Cluster{}
	if err := s.Clusters.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
		return nil, err
	}
	if !cluster.Spec.Type.InCloud() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cluster %s is of type %s, whose kubeconfig is in Secret %s", name, cluster.Spec.Type, secret))
	}
	access, err := s.Access(ctx, cluster)
	if err != nil {
		s.Log.WarnContext(ctx, "no access to a cluster", "user", user.Username, "namespace", namespace, "cluster", name, "error", err)
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	s.Log.InfoContext(ctx, "access to a cluster was handed out", "user", user.Username, "namespace", namespace, "cluster", name, "until", access.ExpiresAt)
	return access, nil
}
