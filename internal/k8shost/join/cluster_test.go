package join

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// cluster is an API server on loopback, with real certificates, that knows the
// few requests a joining node makes. Its objects live in a fake clientset, to
// which the Publish functions write as they would to a real one.
type cluster struct {
	t       *testing.T
	store   *pki.Store
	objects *fake.Clientset
	server  *httptest.Server
	token   token.Token // the cluster's own

	mu          sync.Mutex
	credentials []string // Authorization headers seen
}

// newCluster starts a cluster whose certificates were made at the time of clk.
func newCluster(t *testing.T, clk clock.PassiveClock) *cluster {
	t.Helper()
	c := &cluster{t: t, store: pki.New(filepath.Join(t.TempDir(), "tls"), clk), objects: fake.NewClientset()}
	node := pki.Server{NodeName: "node-1", ClusterDomain: "cluster.local", ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}}
	if _, err := c.store.Ensure(node.Leaves()); err != nil {
		t.Fatal(err)
	}
	password, err := token.Parse("the-password")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := token.HashCA(c.bundle().ClusterCA())
	if err != nil {
		t.Fatal(err)
	}
	c.token = password.WithCA(hash)
	c.server = c.serveTLS(pki.APIServer, http.HandlerFunc(c.handle))
	return c
}

func now() clock.PassiveClock { return clock.RealClock{} }

func at(offset time.Duration) clock.PassiveClock {
	return clocktesting.NewFakePassiveClock(time.Now().Add(offset))
}

// serveTLS starts a server with one of the cluster's certificates.
func (c *cluster) serveTLS(leaf string, handler http.Handler) *httptest.Server {
	c.t.Helper()
	pair, err := tls.LoadX509KeyPair(c.store.CertPath(leaf), c.store.KeyPath(leaf))
	if err != nil {
		c.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = discardLog()
	server.StartTLS()
	c.t.Cleanup(server.Close)
	return server
}

func (c *cluster) bundle() *pki.Bundle {
	c.t.Helper()
	b, err := pki.ReadBundle(c.store.Dir())
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// publish offers everything, in the order a server does.
func (c *cluster) publish() {
	c.t.Helper()
	ctx := c.t.Context()
	for _, err := range []error{
		PublishToken(ctx, c.objects, c.token),
		PublishServerBundle(ctx, c.objects, c.bundle(), c.token.Password()),
	} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	c.publishInfo()
}

// publishInfo is all that discovery needs, without the slow derivations.
func (c *cluster) publishInfo() {
	c.t.Helper()
	if err := PublishClusterInfo(c.t.Context(), c.objects, c.server.URL, c.bundle().ClusterCA()); err != nil {
		c.t.Fatal(err)
	}
}

// handle answers as an API server does, authentication and RBAC included as far
// as joining goes.
func (c *cluster) handle(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Get("Authorization")
	c.mu.Lock()
	if authorization != "" {
		c.credentials = append(c.credentials, authorization)
	}
	c.mu.Unlock()
	user, groups, err := c.authenticate(r, strings.TrimPrefix(authorization, "Bearer "))
	if err != nil {
		answer(w, nil, err)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET " + clusterInfoPath:
		err := c.authorize(r, metav1.NamespacePublic, clusterInfoRole, rbacv1.UserKind, user)
		if err != nil {
			answer(w, nil, err)
			return
		}
		object, err := c.objects.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(r.Context(), "cluster-info", metav1.GetOptions{})
		if err == nil {
			object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		}
		answer(w, object, err)
	case "GET /api/v1/namespaces/kube-system/secrets/" + serverBundleSecret:
		if err := c.authorize(r, metav1.NamespaceSystem, serverBundleRole, rbacv1.GroupKind, groups...); err != nil {
			answer(w, nil, err)
			return
		}
		object, err := c.objects.CoreV1().Secrets(metav1.NamespaceSystem).Get(r.Context(), serverBundleSecret, metav1.GetOptions{})
		if err == nil {
			object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		}
		answer(w, object, err)
	case "POST /apis/authentication.k8s.io/v1/selfsubjectreviews":
		review := &authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
		review.Status.UserInfo.Username = user
		answer(w, review, nil)
	default:
		answer(w, nil, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
	}
}

// authenticate looks the bearer token up as the API server does.
func (c *cluster) authenticate(r *http.Request, bearer string) (string, []string, error) {
	if bearer == "" {
		return "system:anonymous", nil, nil
	}
	id, secret, _ := strings.Cut(bearer, ".")
	object, err := c.objects.CoreV1().Secrets(metav1.NamespaceSystem).Get(r.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	if err != nil || string(object.Data["token-secret"]) != secret {
		return "", nil, apierrors.NewUnauthorized("Unauthorized")
	}
	if expires, err := time.Parse(time.RFC3339, string(object.Data["expiration"])); err == nil && time.Now().After(expires) {
		return "", nil, apierrors.NewUnauthorized("Unauthorized")
	}
	return "system:bootstrap:" + id, strings.Split(string(object.Data["auth-extra-groups"]), ","), nil
}

func (c *cluster) authorize(r *http.Request, namespace, binding, kind string, names ...string) error {
	object, err := c.objects.RbacV1().RoleBindings(namespace).Get(r.Context(), binding, metav1.GetOptions{})
	if err == nil {
		for _, name := range names {
			if object.Subjects[0].Kind == kind && object.Subjects[0].Name == name {
				return nil
			}
		}
	}
	return apierrors.NewForbidden(corev1.Resource("objects"), r.URL.Path, fmt.Errorf("not allowed"))
}

func answer(w http.ResponseWriter, object any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if status, ok := err.(apierrors.APIStatus); ok {
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(s.Code))
		object = s
	}
	_ = json.NewEncoder(w).Encode(object)
}
