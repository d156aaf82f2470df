package cloudd

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestCredentialsAreReadWhenTheyAreNeeded(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "prod-credentials", Namespace: "project-shop"}, Data: map[string][]byte{"access_token": []byte("old")}}
	c := &clouds{api: fake.NewClientset(secret)}
	account := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "project-shop"},
		Spec:       v1alpha1.AccountSpec{Provider: v1alpha1.ProviderGCP, GCP: &v1alpha1.GCPAccount{ProjectID: "shop"}, Credentials: &v1alpha1.SecretReference{Name: "prod-credentials"}},
	}
	for _, want := range []string{"old", "new"} {
		secret.Data["access_token"] = []byte(want)
		if _, err := c.api.CoreV1().Secrets("project-shop").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		environment, err := c.credentials(t.Context(), account)
		if err != nil || environment["GOOGLE_OAUTH_ACCESS_TOKEN"] != want {
			t.Errorf("%v: %v", environment, err)
		}
	}
	delete(secret.Data, "access_token")
	if _, err := c.api.CoreV1().Secrets("project-shop").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(t.Context(), account); err == nil {
		t.Error("a Secret without credentials is complete")
	}
}
