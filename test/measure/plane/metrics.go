package plane

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader is who asks cloudd for metrics.
const reader = "metrics-reader"

// Metrics are what cloudd tells at this moment.
func (p *Plane) Metrics(t testing.TB) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", p.Ports["metrics"]), nil)
	Must(t, err)
	request.Header.Set("Authorization", "Bearer "+p.readerToken(t))
	// Its certificate is one that it has made for itself.
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer web.CloseIdleConnections()
	response, err := web.Do(request)
	Must(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	Must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("ask for metrics: %s: %s", response.Status, content)
	}
	return content
}

// readerToken is a token that may read metrics. Who it is for is made the first time.
func (p *Plane) readerToken(t testing.TB) string {
	t.Helper()
	if p.token != "" {
		return p.token
	}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: System, Name: reader}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: reader}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: System, Name: reader}},
		},
	} {
		Must(t, p.Client.Create(t.Context(), object))
	}
	api, err := kubernetes.NewForConfig(p.API.Config())
	Must(t, err)
	granted, err := api.CoreV1().ServiceAccounts(System).CreateToken(t.Context(), reader, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Must(t, err)
	p.token = granted.Status.Token
	return p.token
}
