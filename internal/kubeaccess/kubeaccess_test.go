package kubeaccess_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/gate"
	"plasmacloud.io/plasmacloud/internal/kubeaccess"
	"plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
)

const token = "k8s-aws-v1.secret"

// judges is an API that knows ann, who may read the kubeconfigs of project web, and vic, who may not.
func judges() *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		name, ok := strings.CutPrefix(review.Spec.Token, "token of ")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name}}
		return true, review, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		about := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "ann" && about.Namespace == "project-web" && about.Verb == "get" && about.Resource == "secrets" && strings.HasSuffix(about.Name, "-admin-kubeconfig")
		return true, review, nil
	})
	return api
}

func newService(t *testing.T, log *bytes.Buffer) *httptest.Server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := func(name string, kind v1alpha1.ClusterType) *v1alpha1.Cluster {
		return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: name}, Spec: v1alpha1.ClusterSpec{Type: kind}}
	}
	objects := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(
		cluster("shop", v1alpha1.ClusterEKS), cluster("young", v1alpha1.ClusterGKE), cluster("dev", v1alpha1.ClusterHosted)).Build()
	mux := http.NewServeMux()
	mux.Handle(wire.Pattern, kubeaccess.New(kubeaccess.Config{
		Gate: gate.Gate{API: judges()}, Clusters: objects, Log: slog.New(slog.NewTextHandler(log, nil)),
		Access: func(_ context.Context, c *v1alpha1.Cluster) (*wire.Access, error) {
			if c.Name == "young" {
				return nil, errors.New("cluster young is not there yet")
			}
			return &wire.Access{Server: "https://eks", CA: "CA", Token: token, ExpiresAt: time.Unix(1700000000, 0)}, nil
		},
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestWhoMayReadKubeconfigsGetsATokenOfTheCloud(t *testing.T) {
	var log bytes.Buffer
	server := newService(t, &log)
	for _, c := range []struct {
		who, project, cluster string
		status                int
		says                  string
	}{
		{"token of ann", "web", "shop", http.StatusOK, token},
		{"token of vic", "web", "shop", http.StatusForbidden, "may not read kubeconfigs"},
		{"token of ann", "other", "shop", http.StatusForbidden, "may not read kubeconfigs"},
		{"nonsense", "web", "shop", http.StatusUnauthorized, "cloud login"},
		{"", "web", "shop", http.StatusUnauthorized, "cloud login"},
		{"token of ann", "web", "missing", http.StatusNotFound, "not found"},
		{"token of ann", "web", "young", http.StatusServiceUnavailable, "is not there yet"},
		{"token of ann", "web", "dev", http.StatusBadRequest, "is of type Hosted"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+wire.Path(c.project, c.cluster), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.who)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			wire.Access
			Message string `json:"message"`
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != c.status || !strings.Contains(answer.Token+answer.Message, c.says) || c.status != http.StatusOK && answer.Token != "" {
			t.Errorf("%s asks for %s: %s, %+v, %v", c.who, c.cluster, response.Status, answer, err)
		}
	}
	if told := log.String(); strings.Contains(told, token) || !strings.Contains(told, "user=ann") || !strings.Contains(told, "cluster=shop") {
		t.Errorf("the log says %s", told)
	}
}
