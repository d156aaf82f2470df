package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestKubeconfigsOfClustersInCloudsHoldNoSecret(t *testing.T) {
	w := newWorld(t)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "cloudy"}, Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterEKS}}
	if err := w.api.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if have := w.run("k8s", "kubeconfig", "cloudy"); have.code == 0 || !strings.Contains(have.err, "has no kubeconfig yet") {
		t.Errorf("before it is there: %+v", have)
	}
	cluster.Status.Endpoint = "https://eks.example.com"
	if err := w.api.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	have := w.run("k8s", "kubeconfig", "cloudy")
	config, err := clientcmd.Load([]byte(have.out))
	if err != nil || have.code != 0 {
		t.Fatalf("%+v, %v", have, err)
	}
	place := config.Contexts[config.CurrentContext]
	if server := config.Clusters[place.Cluster]; server.Server != "https://eks.example.com" || string(server.CertificateAuthorityData) != "CA" {
		t.Errorf("the cluster is %+v", server)
	}
	user := config.AuthInfos[place.AuthInfo]
	if user.Token != "" || user.Exec == nil || strings.Contains(have.out, "k8s-aws-v1") || strings.Join(user.Exec.Args, " ") != "credential --context home --project web --cluster cloudy" {
		t.Errorf("the user is\n%s", have.out)
	}
	// And what it runs tells the token.
	told := w.run(user.Exec.Args...)
	if told.code != 0 || !strings.Contains(told.out, `"token":"k8s-aws-v1.token"`) || !strings.Contains(told.out, `"expirationTimestamp":"2026-01-02T12:14:00Z"`) {
		t.Errorf("%+v", told)
	}
	for _, flag := range []string{"--role=view", "--ttl=1h", "--super-admin", "--internal"} {
		if have := w.run("k8s", "kubeconfig", "cloudy", flag); have.code != 2 || !strings.Contains(have.err, "whose tokens the cloud makes") {
			t.Errorf("%s: %+v", flag, have)
		}
	}
}
