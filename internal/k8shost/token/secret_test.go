package token

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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

func TestPasswordSecret(t *testing.T) {
	tok := Token{caHash: testHash, password: "first"}
	first, err := PasswordSecret(tok)
	if err != nil {
		t.Fatal(err)
	}
	if groups := string(first.Data["auth-extra-groups"]); groups != AgentGroup+","+ServerGroup {
		t.Errorf("groups are %q", groups)
	}
	bootstrap, err := tok.Bootstrap()
	if got := string(first.Data["token-id"]) + "." + string(first.Data["token-secret"]); err != nil || got != bootstrap {
		t.Errorf("it holds %q, the token derives %q, %v", got, bootstrap, err)
	}
	for _, absent := range []string{"expiration", "usage-bootstrap-signing"} {
		if _, ok := first.Data[absent]; ok {
			t.Errorf("it has %s", absent)
		}
	}
	tok.password = "second"
	second, err := PasswordSecret(tok)
	if err != nil {
		t.Fatal(err)
	}
	if first.Name != second.Name || string(first.Data["token-secret"]) == string(second.Data["token-secret"]) {
		t.Errorf("a new password does not replace the old one: %s, %s", first.Name, second.Name)
	}
	if _, err := PasswordSecret(Token{id: "abcdef", secret: "0123456789abcdef"}); err == nil {
		t.Error("a bootstrap token was taken for a password")
	}
	if _, err := PasswordSecret(Token{password: "first"}); err == nil {
		t.Error("a password without CA was accepted")
	}
}
