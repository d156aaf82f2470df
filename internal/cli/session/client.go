package session

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// Scheme is the kinds that the command line knows.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}

// mapper knows where the kinds are, so that no command has to ask the API first.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Organization", "Project", "User", "AccessToken"} {
		m.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Account", "Network", "Cluster", "NodeGroup", "Machine", "Task", "Bucket"} {
		m.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Secret", "ConfigMap", "Event"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return m
}

// Connect makes a client of the management API.
func Connect(config *rest.Config) (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper(), FieldOwner: "cloud"})
}

// Client is the management API of the context, for a user who is logged in.
func (s *Session) Client(ctx context.Context) (client.WithWatch, error) {
	chosen, err := s.Context()
	if err != nil {
		return nil, err
	}
	if chosen.Kubeconfig == "" {
		if _, err := s.Token(ctx); err != nil {
			return nil, err
		}
	}
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		if s.client, err = s.Connect(config); err != nil {
			return nil, fmt.Errorf("connect to the management API: %w", err)
		}
	}
	return s.client, nil
}

// RESTConfig is how to talk to the management API of the context.
func (s *Session) RESTConfig() (*rest.Config, error) {
	chosen, err := s.Context()
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: chosen.Server, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(chosen.CA)}}
	if chosen.Kubeconfig != "" {
		if config, err = clientcmd.BuildConfigFromFlags("", chosen.Kubeconfig); err != nil {
			return nil, fmt.Errorf("read the kubeconfig of context %s: %w", chosen.Name, err)
		}
	} else {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{session: s, next: next} })
	}
	config.UserAgent = "cloud"
	config.QPS = -1 // the API's own fairness is enough
	config.WarningHandler = rest.NewWarningWriter(s.Err, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// bearer shows the user's token, which may have to be refreshed while a command waits.
type bearer struct {
	session *Session
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := b.session.Token(request.Context())
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return b.next.RoundTrip(request)
}

// Catalogue is what the installation offers.
func (s *Session) Catalogue(ctx context.Context) (*catalogue.Catalogue, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	configMap := &corev1.ConfigMap{}
	err = api.Get(ctx, client.ObjectKey{Namespace: catalogue.Namespace, Name: catalogue.ConfigMapName}, configMap)
	if apierrors.IsNotFound(err) {
		return nil, exit.NotFoundf("`cloud up` puts one there", "this installation has no catalogue")
	}
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return catalogue.Parse([]byte(configMap.Data[catalogue.ConfigMapKey]))
}

// OptionalCatalogue is the catalogue where it can be had, and otherwise nil: to check early what the API checks anyway.
func (s *Session) OptionalCatalogue(ctx context.Context) (*catalogue.Catalogue, error) {
	offered, err := s.Catalogue(ctx)
	if exit.Of(err) == exit.NotFound || apierrors.IsForbidden(err) {
		return nil, nil
	}
	return offered, err
}
