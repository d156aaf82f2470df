package iam

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/keys"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

// testInterface is a person's day: log in, look around, make a token, change the password, log out.
func testInterface(t *testing.T, c *cloud) {
	c.organization(t, "daily", "work")
	made := c.user(t, "dan", "daily", nil, "work=admin")
	c.user(t, "bot", "daily", robot, "work=member")
	session := c.login(t, c.service, "dan")
	c.service.knows(t, "bot", func(*directory.User) bool { return true })

	var who wire.Identity
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathWhoami, session.AccessToken, nil, &who)
	if who.Name != "dan" || who.Username != "dan@example.com" || who.Organization != "daily" || who.ID != "user-"+string(made.UID) ||
		!slices.Equal(who.Projects, []wire.Membership{{Project: "work", Role: "admin"}}) {
		t.Errorf("%+v", who)
	}
	var token wire.Token
	c.expect(t, http.StatusCreated, http.MethodPost, wire.PathTokens, session.AccessToken, wire.TokenRequest{User: "bot", Description: "builds"}, &token)
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathWhoami, token.Token, nil, &who)
	if who.Name != "bot" || who.Username != "sa-bot@work" {
		t.Errorf("%+v", who)
	}
	var list wire.TokenList
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathTokens+"?user=bot", session.AccessToken, nil, &list)
	if len(list.Items) != 1 || list.Items[0].Name != token.Name || list.Items[0].Token != "" || list.Items[0].Description != "builds" {
		t.Errorf("%+v", list)
	}
	eventually(t, "the use of the token is noted", func() error {
		var object v1alpha1.AccessToken
		err := c.ours.Get().Resource("accesstokens").Name(token.Name).Do(t.Context()).Into(&object)
		if err == nil && object.Status.LastUsed == nil {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	c.expect(t, http.StatusForbidden, http.MethodPost, wire.PathTokens, token.Token, wire.TokenRequest{}, nil)
	c.expect(t, http.StatusNoContent, http.MethodDelete, wire.PathTokens+"/"+token.Name, session.AccessToken, nil, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathWhoami, token.Token, nil, nil)

	change := wire.PasswordRequest{Current: goodPassword, New: "battery staple"}
	c.expect(t, http.StatusNoContent, http.MethodPost, wire.PathPassword, session.AccessToken, change, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathWhoami, session.AccessToken, nil, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodPost, wire.PathLogin, "", wire.LoginRequest{Email: "dan@example.com", Password: goodPassword}, nil)
	c.expect(t, http.StatusOK, http.MethodPost, wire.PathLogin, "", wire.LoginRequest{Email: "dan@example.com", Password: "battery staple"}, &session)
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathWhoami, session.AccessToken, nil, &who)

	var bound wire.Session
	audience := wire.RefreshRequest{RefreshToken: session.RefreshToken, Scope: wire.Scope{Audience: "some-cluster"}}
	c.expect(t, http.StatusOK, http.MethodPost, wire.PathRefresh, "", audience, &bound)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathWhoami, bound.AccessToken, nil, nil)
	if _, err := c.whoIs(t, bound.AccessToken); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of another API server is accepted: %v", err)
	}
	c.expect(t, http.StatusNoContent, http.MethodPost, wire.PathLogout, "", wire.LogoutRequest{RefreshToken: session.RefreshToken}, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodPost, wire.PathRefresh, "", wire.RefreshRequest{RefreshToken: session.RefreshToken}, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathWhoami, session.AccessToken, nil, nil)
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathHealth, "", nil, nil)
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathReady, "", nil, nil)
}

func testMalformedRequests(t *testing.T, c *cloud) {
	asked := c.client(t, c.apiServerPair(t))
	const form = `{"apiVersion":%q,"kind":%q,"spec":{"token":%q}}`
	for body, want := range map[string]int{
		"":     http.StatusBadRequest,
		"x":    http.StatusBadRequest,
		"null": http.StatusBadRequest,
		"[]":   http.StatusBadRequest,
		"{}":   http.StatusBadRequest,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":"x"}`:                http.StatusBadRequest,
		fmt.Sprintf(form, "authentication.k8s.io/v1", "SubjectAccessReview", "x"):                  http.StatusBadRequest,
		fmt.Sprintf(form, "v1", "TokenReview", "x"):                                                http.StatusBadRequest,
		fmt.Sprintf(form, "authentication.k8s.io/v1", "TokenReview", "x") + "x":                    http.StatusBadRequest,
		fmt.Sprintf(form, "authentication.k8s.io/v1", "TokenReview", strings.Repeat("x", 200<<10)): http.StatusRequestEntityTooLarge,
		fmt.Sprintf(form, "authentication.k8s.io/v1", "TokenReview", ""):                           http.StatusOK,
		fmt.Sprintf(form, "authentication.k8s.io/v1", "TokenReview", "\n\t"):                       http.StatusOK,
		fmt.Sprintf(form, "authentication.k8s.io/v1beta1", "TokenReview", "x"):                     http.StatusOK,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`:                           http.StatusOK,
	} {
		var answer map[string]any
		code, err := call(t.Context(), asked, http.MethodPost, c.service.url+wire.PathAuthenticate, "", body, &answer)
		if err != nil || code != want {
			t.Errorf("%.80s: answered with %d, want %d; %v", body, code, want, err)
			continue
		}
		if want == http.StatusOK {
			data, _ := json.Marshal(answer["status"])
			if answer["kind"] != "TokenReview" || string(data) != `{"authenticated":false,"error":"Invalid or expired token"}` {
				t.Errorf("%.80s: answered with %v", body, answer)
			}
		} else if answer["kind"] != "Status" {
			t.Errorf("%.80s: answered with %v", body, answer)
		}
	}
	c.expect(t, http.StatusBadRequest, http.MethodPost, wire.PathLogin, "", "x", nil)
	c.expect(t, http.StatusRequestEntityTooLarge, http.MethodPost, wire.PathLogin, "", wire.LoginRequest{Email: "a@b", Password: strings.Repeat("x", 20<<10)}, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathWhoami, "", nil, nil)
	c.expect(t, http.StatusUnauthorized, http.MethodGet, wire.PathTokens, "pct_x", nil, nil)
	for method, path := range map[string]string{http.MethodGet: wire.PathAuthenticate, http.MethodPut: wire.PathLogin} {
		c.expect(t, http.StatusMethodNotAllowed, method, path, "", nil, nil)
	}
	c.expect(t, http.StatusNotFound, http.MethodGet, "/", "", nil, nil)
}

func testThrottling(t *testing.T, c *cloud) {
	c.organization(t, "guessed")
	c.user(t, "gus", "guessed", nil)
	c.login(t, c.service, "gus")
	wrong := wire.LoginRequest{Email: "gus@example.com", Password: "wrong"}
	for range 5 {
		c.expect(t, http.StatusUnauthorized, http.MethodPost, wire.PathLogin, "", wrong, nil)
	}
	var status metav1.Status
	c.expect(t, http.StatusTooManyRequests, http.MethodPost, wire.PathLogin, "", wrong, &status)
	if status.Reason != metav1.StatusReasonTooManyRequests || status.Details == nil || status.Details.RetryAfterSeconds != 1 {
		t.Errorf("%+v", status)
	}
	eventually(t, "the right password does after a second", func() error {
		code, err := call(t.Context(), c.client(t, nil), http.MethodPost, c.service.url+wire.PathLogin, "", wire.LoginRequest{Email: "gus@example.com", Password: goodPassword}, nil)
		if code != http.StatusOK {
			return fmt.Errorf("answered with %d %w", code, err)
		}
		return nil
	})
}

// testOffline is an API server that never asks: it verifies by what the service publishes.
func testOffline(t *testing.T, c *cloud) {
	c.organization(t, "remote", "away")
	made := c.user(t, "olga", "remote", nil, "away=viewer")
	config, err := webhook.Offline{Issuer: c.service.url, CA: c.bundle.ClusterCA()}.Render()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	offline := testapi.New(t, testapi.Options{WithoutCRDs: true, APIServerArgs: []string{"--authentication-config=" + file}})
	session := c.login(t, c.service, "olga")
	var who authenticationv1.UserInfo
	eventually(t, "it has fetched the keys", func() (err error) { who, err = whoIs(t, offline, session.AccessToken); return err })
	if who.Username != "olga@example.com" || who.UID != "user-"+string(made.UID) ||
		!slices.Equal(who.Groups, []string{"org:remote", "project:away:viewer", "system:authenticated"}) || !slices.Equal(who.Extra["plasmacloud.io/org-id"], []string{"remote"}) {
		t.Errorf("%+v", who)
	}
	if _, err := whoIs(t, offline, session.RefreshToken); !apierrors.IsUnauthorized(err) {
		t.Errorf("a refresh token is accepted: %v", err)
	}
}

// testProjectsKeepApart has two people of one organization, and one of another, meet at the API server.
func testProjectsKeepApart(t *testing.T, c *cloud) {
	c.put(t, rbac.Management.ForCluster())
	c.organization(t, "north", "red", "blue")
	c.organization(t, "south", "green")
	people := map[string]kubernetes.Interface{}
	for user, project := range map[string]string{"rob": "red", "bea": "blue", "gil": "green"} {
		organization := "north"
		if project == "green" {
			organization = "south"
		}
		c.put(t, rbac.Management.ForProject(&v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: v1alpha1.ProjectSpec{Organization: organization}}))
		c.user(t, user, organization, nil, project+"=admin")
		client, err := kubernetes.NewForConfig(withToken(c.api, c.login(t, c.service, user).AccessToken))
		if err != nil {
			t.Fatal(err)
		}
		people[project] = client
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
		eventually(t, user+" keeps a secret", func() error {
			_, err := client.CoreV1().Secrets("project-"+project).Create(t.Context(), secret, metav1.CreateOptions{})
			return err
		})
	}
	for mine, client := range people {
		for theirs := range people {
			_, get := client.CoreV1().Secrets("project-"+theirs).Get(t.Context(), "mine", metav1.GetOptions{})
			_, list := client.CoreV1().Secrets("project-"+theirs).List(t.Context(), metav1.ListOptions{})
			remove := client.CoreV1().Secrets("project-"+theirs).Delete(t.Context(), "mine", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			for verb, err := range map[string]error{"get": get, "list": list, "delete": remove} {
				if (mine == theirs) != (err == nil) || err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("%s %s of %s by %s: %v", verb, "secret", theirs, mine, err)
				}
			}
		}
	}
}

// testStoredForm looks at what is in the API afterwards: nothing that lets anybody in.
func testStoredForm(t *testing.T, c *cloud) {
	c.organization(t, "stored")
	made := c.user(t, "stan", "stored", nil)
	session := c.login(t, c.service, "stan")
	var token wire.Token
	c.expect(t, http.StatusCreated, http.MethodPost, wire.PathTokens, session.AccessToken, wire.TokenRequest{}, &token)
	eventually(t, "the login is noted", func() error {
		var user v1alpha1.User
		err := c.ours.Get().Resource("users").Name("stan").Do(t.Context()).Into(&user)
		if err == nil && (user.Status.LastLogin == nil || time.Since(user.Status.LastLogin.Time) > time.Minute) {
			err = fmt.Errorf("last login is %v", user.Status.LastLogin)
		}
		return err
	})
	for _, path := range []string{"users", "accesstokens"} {
		data, err := c.ours.Get().Resource(path).Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{token.Token, session.AccessToken, session.RefreshToken, goodPassword} {
			if strings.Contains(string(data), secret) {
				t.Errorf("%s hold a secret", path)
			}
		}
	}
	secret, err := c.admin.CoreV1().Secrets(namespace).Get(t.Context(), "iam-password-"+string(made.UID), metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(string(secret.Data["hash"]), "$argon2id$") || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != made.UID {
		t.Errorf("%v %v", secret, err)
	}
}

// testManyLogouts is more of them than a user's status lists.
func testManyLogouts(t *testing.T, c *cloud) {
	c.organization(t, "leaving")
	c.user(t, "leo", "leaving", nil)
	session := c.login(t, c.service, "leo")
	writer := store.NewWriter(c.ours, c.admin, namespace)
	now := time.Now()
	status := func() v1alpha1.UserStatus {
		var user v1alpha1.User
		if err := c.ours.Get().Resource("users").Name("leo").Do(t.Context()).Into(&user); err != nil {
			t.Fatal(err)
		}
		return user.Status
	}
	revoke := func(id string, until time.Time) {
		if err := writer.RevokeSession(t.Context(), "leo", id, now, until); err != nil {
			t.Fatal(err)
		}
	}
	revoke("over", now.Add(-time.Hour))
	for i := range 100 {
		revoke(fmt.Sprint(i), now.Add(time.Hour))
	}
	if s := status(); len(s.RevokedSessions) != 100 || s.TokensValidAfter != nil {
		t.Errorf("%d sessions are revoked, all since %v", len(s.RevokedSessions), s.TokensValidAfter)
	}
	c.expect(t, http.StatusOK, http.MethodGet, wire.PathWhoami, session.AccessToken, nil, nil)
	revoke("one more", now.Add(time.Hour))
	if s := status(); len(s.RevokedSessions) != 0 || s.TokensValidAfter == nil {
		t.Errorf("%d sessions are revoked, all since %v", len(s.RevokedSessions), s.TokensValidAfter)
	}
	eventually(t, "all sessions have ended", func() error {
		code, err := call(t.Context(), c.client(t, nil), http.MethodGet, c.service.url+wire.PathWhoami, session.AccessToken, nil, nil)
		if code != http.StatusUnauthorized {
			return fmt.Errorf("answered with %d %w", code, err)
		}
		return nil
	})
}

// testForeignPasswords keeps a user's password out of reach of another who names its Secret.
func testForeignPasswords(t *testing.T, c *cloud) {
	c.organization(t, "naming")
	victim := c.user(t, "nan", "naming", nil)
	c.user(t, "nik", "naming", func(u *v1alpha1.UserSpec) { u.Email = "nik@example.com" })
	writer := store.NewWriter(c.ours, c.admin, namespace)
	if err := writer.SavePassword(t.Context(), "nik", directory.PasswordSecretName(victim), directory.DefaultPasswordKey, "x"); err == nil {
		t.Error("a password was replaced by another user's")
	}
	if err := writer.SavePassword(t.Context(), "nik", keys.SecretName, directory.DefaultPasswordKey, "x"); err == nil {
		t.Error("a Secret was used that holds no passwords")
	}
	if err := writer.SavePassword(t.Context(), "nobody", "x", "y", "z"); err == nil {
		t.Error("the password of nobody was kept")
	}
	c.login(t, c.service, "nan")
}
