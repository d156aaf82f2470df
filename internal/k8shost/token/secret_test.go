package token

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestCreateListDelete(t *testing.T) {
	ctx, client, clk := t.Context(), fake.NewClientset(), clocktesting.NewFakePassiveClock(now)
	made, err := Create(ctx, client, clk, testHash, Options{TTL: 24 * time.Hour, Description: "for rack 7"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(made.Format()); err != nil || again != made || made.JoinsServers() {
		t.Errorf("made %v, parsed %v, %v", made, again, err)
	}
	secret, err := client.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-"+made.id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"token-id": made.id, "token-secret": made.secret, "description": "for rack 7",
		"expiration": "2026-03-02T12:00:00Z", "auth-extra-groups": AgentGroup,
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if secret.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("type is %q", secret.Type)
	}
	infos, err := List(ctx, client, clk)
	if err != nil || len(infos) != 1 {
		t.Fatalf("List = %v, %v", infos, err)
	}
	got := infos[0]
	if got.ID != made.id || got.Expired || got.Problem != "" || !got.Expires.Equal(now.Add(24*time.Hour)) ||
		!slices.Equal(got.Usages, []string{"authentication", "signing"}) || !slices.Contains(got.Groups, AgentGroup) {
		t.Errorf("List = %+v", got)
	}
	clk.SetTime(now.Add(25 * time.Hour))
	if infos, err = List(ctx, client, clk); err != nil || !infos[0].Expired {
		t.Errorf("after its end: %+v, %v", infos, err)
	}
	if err := Delete(ctx, client, made.Format()); err != nil {
		t.Error(err)
	}
	if err := Delete(ctx, client, made.id); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleting again: %v", err)
	}
}

func TestCreateWithoutEnd(t *testing.T) {
	ctx, client, clk := t.Context(), fake.NewClientset(), clocktesting.NewFakePassiveClock(now)
	if _, err := Create(ctx, client, clk, testHash, Options{}); err != nil {
		t.Fatal(err)
	}
	infos, err := List(ctx, client, clk)
	if err != nil || len(infos) != 1 || !infos[0].Expires.IsZero() || infos[0].Expired {
		t.Errorf("List = %+v, %v", infos, err)
	}
}

func TestCreateRefusesBadInput(t *testing.T) {
	ctx, client, clk := t.Context(), fake.NewClientset(), clocktesting.NewFakePassiveClock(now)
	if _, err := Create(ctx, client, clk, testHash, Options{TTL: -time.Second}); err == nil {
		t.Error("a negative lifetime was accepted")
	}
	if _, err := Create(ctx, client, clk, "abc", Options{}); err == nil {
		t.Error("half a hash was accepted")
	}
}

func TestDeleteRefusesWhatHoldsNoID(t *testing.T) {
	client := fake.NewClientset()
	for _, text := range []string{"", "password", "K10" + testHash + "::server:pass", "K10abc"} {
		if err := Delete(t.Context(), client, text); !errors.Is(err, ErrInvalid) {
			t.Errorf("Delete(%q): %v", text, err)
		}
	}
}

func TestListShowsDamagedTokensAndNoOtherSecrets(t *testing.T) {
	secret := func(name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: kind, Data: map[string][]byte{}}
		for k, v := range data {
			s.Data[k] = []byte(v)
		}
		return s
	}
	client := fake.NewClientset(
		secret("other", corev1.SecretTypeOpaque, nil),
		secret("bootstrap-token-aaaaaa", "bootstrap.kubernetes.io/token", map[string]string{"token-id": "aaaaaa", "expiration": "soon"}),
		secret("bootstrap-token-bbbbbb", "bootstrap.kubernetes.io/token", map[string]string{"token-id": "cccccc"}),
		secret("bootstrap-token-dddddd", "bootstrap.kubernetes.io/token", map[string]string{"token-id": "dddddd", "auth-extra-groups": "system:masters"}),
		secret("misnamed", "bootstrap.kubernetes.io/token", map[string]string{"token-id": "eeeeee"}),
	)
	infos, err := List(t.Context(), client, clocktesting.NewFakePassiveClock(now))
	if err != nil || len(infos) != 4 {
		t.Fatalf("List = %+v, %v", infos, err)
	}
	for i, want := range []string{"not a time", "differ", "system:masters", "differ"} {
		if !strings.Contains(infos[i].Problem, want) {
			t.Errorf("%s: problem %q, want %q", infos[i].ID, infos[i].Problem, want)
		}
	}
}

func TestPublishPasswordIsIdempotentAndReplaces(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	tok := Token{caHash: testHash, password: "first"}
	for range 2 {
		if err := PublishPassword(ctx, client, tok); err != nil {
			t.Fatal(err)
		}
	}
	first := onlySecret(t, ctx, client)
	if groups := string(first.Data["auth-extra-groups"]); groups != AgentGroup+","+ServerGroup {
		t.Errorf("groups are %q", groups)
	}
	for _, absent := range []string{"expiration", "usage-bootstrap-signing"} {
		if _, ok := first.Data[absent]; ok {
			t.Errorf("it has %s", absent)
		}
	}
	tok.password = "second"
	if err := PublishPassword(ctx, client, tok); err != nil {
		t.Fatal(err)
	}
	second := onlySecret(t, ctx, client)
	if string(first.Data["token-secret"]) == string(second.Data["token-secret"]) {
		t.Error("the secret did not change")
	}
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" && action.GetVerb() != "list" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d writes, want a create and an update", writes)
	}
	if err := PublishPassword(ctx, client, Token{id: "abcdef", secret: "0123456789abcdef"}); err == nil {
		t.Error("a bootstrap token was published as the password")
	}
}

// Another server may publish between the read and the write.
func TestPublishPasswordSurvivesARace(t *testing.T) {
	client := fake.NewClientset()
	raced := false
	client.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if raced {
			return false, nil, nil
		}
		raced = true
		return true, nil, apierrors.NewAlreadyExists(corev1.Resource("secrets"), "x")
	})
	if err := PublishPassword(t.Context(), client, Token{caHash: testHash, password: "pass"}); err != nil {
		t.Error(err)
	}
}

func onlySecret(t *testing.T, ctx context.Context, client *fake.Clientset) corev1.Secret {
	t.Helper()
	secrets, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 {
		t.Fatalf("secrets: %v, %v", secrets, err)
	}
	return secrets.Items[0]
}
