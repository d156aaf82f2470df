package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// withAccount is a world with an account in Google Cloud that was looked at before.
func withAccount(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	account := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "project-web"},
		Spec:       v1alpha1.AccountSpec{Provider: v1alpha1.ProviderGCP, Credentials: &v1alpha1.SecretReference{Name: "prod-credentials"}},
		Status:     v1alpha1.AccountStatus{ObservedGeneration: 1, Access: &v1alpha1.AccountAccess{}},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "prod-credentials", Namespace: "project-web"}, Data: map[string][]byte{"access_token": []byte("old")}}
	for _, object := range []client.Object{account, secret} {
		if err := w.api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// look is what the platform says when it is asked to look at the account.
func (w *world) look(conditions ...metav1.Condition) {
	w.watched(1)
	account := &v1alpha1.Account{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "project-web", Name: "prod"}, account); err != nil {
		w.t.Error(err)
		return
	}
	account.Status.Access = &v1alpha1.AccountAccess{Identity: "platform@shop", Missing: []string{"storage.buckets.create"}, Request: account.Annotations[v1alpha1.AnnotationVerify]}
	account.Status.Conditions = conditions
	if err := w.api.Update(w.t.Context(), account); err != nil {
		w.t.Error(err)
	}
}

func TestAnAccountIsVerifiedAtOnce(t *testing.T) {
	good := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}
	for want, test := range map[string]struct {
		code       int
		conditions []metav1.Condition
	}{
		"platform@shop": {0, []metav1.Condition{good, {Type: v1alpha1.ConditionVerified, Status: metav1.ConditionTrue, Reason: "Verified"}}},
		"account prod: it lacks storage.buckets.create": {1, []metav1.Condition{good, {Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: "PermissionsMissing", Message: "it lacks storage.buckets.create"}}},
		"account prod cannot be used: they are revoked": {1, []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Revoked", Message: "they are revoked"}}},
	} {
		w := withAccount(t)
		done := make(chan struct{})
		go func() { defer close(done); w.look(test.conditions...) }()
		var out, said buffer
		if code := w.start(t.Context(), "", &out, &said, "account", "verify", "prod", "--timeout", "1m"); code != test.code {
			t.Errorf("it ended with %d, not %d", code, test.code)
		}
		<-done
		if text := out.String() + said.String(); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	w := withAccount(t)
	var out, said buffer
	if code := w.start(t.Context(), "", &out, &said, "account", "verify", "prod", "--timeout", "1ms"); code != 5 {
		t.Errorf("without an answer it ended with %d\n%s", code, said.String())
	}
}

func TestCredentialsAreReplaced(t *testing.T) {
	w := withAccount(t)
	var out, said buffer
	if code := w.start(t.Context(), `{"type": "service_account"}`, &out, &said, "account", "set-credentials", "prod", "--credentials-file", "-"); code != 0 {
		t.Fatalf("it ended with %d\n%s", code, said.String())
	}
	secret := &corev1.Secret{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "prod-credentials"}, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data) != 1 || string(secret.Data["credentials.json"]) != `{"type": "service_account"}` {
		t.Errorf("%v", secret.Data)
	}
	for args, code := range map[string]int{"account set-credentials prod": 2, "account set-credentials local --credentials-file x": 4} {
		var out, said buffer
		if have := w.start(t.Context(), "", &out, &said, strings.Fields(args)...); have != code {
			t.Errorf("%s ended with %d\n%s", args, have, said.String())
		}
	}
}

func TestTheWayToStatesStaysWithNewCredentials(t *testing.T) {
	w := newWorld(t)
	const before, after = "postgres://states:old@db/states", "postgres://states:new@db/states"
	create := []string{"account", "create", "db", "--provider", "gcp", "--region", "r", "--gcp-project", "p", "--state-backend", "postgres", "--credentials-file", "testdata/known_hosts", "--state-connection-file", "-"}
	for _, step := range []struct {
		input         string
		args          []string
		token, states string
	}{
		{before, create, "", before},
		{"second", []string{"account", "set-credentials", "db", "--credentials-file", "-"}, "second", before},
		{after, []string{"account", "set-credentials", "db", "--state-connection-file", "-"}, "second", after},
	} {
		var out, said buffer
		if code := w.start(t.Context(), step.input, &out, &said, step.args...); code != 0 {
			t.Fatalf("%v ended with %d\n%s", step.args, code, said.String())
		}
		secret := &corev1.Secret{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "db-credentials"}, secret); err != nil {
			t.Fatal(err)
		}
		if string(secret.Data["PG_CONN_STR"]) != step.states || step.token != "" && string(secret.Data["access_token"]) != step.token || len(secret.Data) != 2 {
			t.Errorf("%v: %s", step.args, secret.Data)
		}
	}
}
