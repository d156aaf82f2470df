package iam

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// TestWithARealAPIServer runs everything that shares a management API at once: keys rotate while users log in.
func TestWithARealAPIServer(t *testing.T) {
	c := newCloud(t)
	for name, test := range map[string]func(*testing.T, *cloud){
		"it knows our users":                         testUsersAreKnown,
		"revocation takes effect within seconds":     testRevocation,
		"keys rotate under load":                     testRotationUnderLoad,
		"API servers prove who they are":             testMutualTLS,
		"old TLS is refused":                         testOldTLS,
		"sessions, passwords and tokens over HTTP":   testInterface,
		"malformed requests":                         testMalformedRequests,
		"guessing is slowed down":                    testThrottling,
		"an API server verifies offline":             testOffline,
		"many logouts":                               testManyLogouts,
		"a password is its user's":                   testForeignPasswords,
		"projects keep apart":                        testProjectsKeepApart,
		"what was stored is encrypted, hashed or ID": testStoredForm,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// testUsersAreKnown is the way of a token through kube-apiserver: two organizations, all kinds of users,
// both kinds of tokens.
func testUsersAreKnown(t *testing.T, c *cloud) {
	c.organization(t, "acme", "web", "shop")
	c.organization(t, "umbrella", "lab")
	admin := func(u *v1alpha1.UserSpec) { u.OrganizationAdmin = true }
	for _, u := range []struct {
		name, organization string
		change             func(*v1alpha1.UserSpec)
		memberships        []string
		username           string
		groups             []string
	}{
		{"ann", "acme", nil, []string{"web=member"}, "ann@example.com", []string{"org:acme", "project:web"}},
		{"vic", "acme", nil, []string{"web=viewer"}, "vic@example.com", []string{"org:acme", "project:web:viewer"}},
		{"boss", "acme", admin, nil, "boss@example.com", []string{"org:acme", "project:shop", "project:web", "k8s:org-admin", "org:acme:admin"}},
		{"eve", "umbrella", nil, []string{"lab=admin", "web=admin"}, "eve@example.com", []string{"org:umbrella", "project:lab"}},
		{"root", "umbrella", func(u *v1alpha1.UserSpec) { u.PlatformAdmin = true }, nil, "root@example.com", []string{"org:umbrella", "system:plasmacloud-admins"}},
		{"ci", "acme", robot, []string{"web=member"}, "sa-ci@web", []string{"org:acme", "project:web", "system:serviceaccounts"}},
	} {
		made := c.user(t, u.name, u.organization, u.change, u.memberships...)
		_, secret := c.accessToken(t, u.name)
		tokens := []string{secret}
		if made.Spec.Kind == v1alpha1.UserPerson {
			tokens = append(tokens, c.login(t, c.service, u.name).AccessToken)
		}
		want := append(slices.Clone(u.groups), "system:authenticated") // the API server adds it to everybody
		for _, raw := range tokens {
			var got authenticationv1.UserInfo
			eventually(t, u.name+" is known", func() (err error) { got, err = c.whoIs(t, raw); return err })
			if got.Username != u.username || got.UID != "user-"+string(made.UID) || !slices.Equal(got.Groups, want) || !slices.Equal(got.Extra["org_id"], []string{u.organization}) {
				t.Errorf("%s is %+v", u.name, got)
			}
		}
	}
	for _, raw := range []string{"pct_nonsense", "nonsense", "eyJhbGciOiJFUzI1NiJ9.e30.AA"} {
		if who, err := c.whoIs(t, raw); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %+v %v", raw, who, err)
		}
	}
	if log := c.service.log.String(); strings.Contains(log, "pct_") || strings.Contains(log, "eyJ") || strings.Contains(log, goodPassword) {
		t.Error("a secret is in the log")
	}
}

// testRevocation asks the service, and kube-apiserver. That remembers a token for ten seconds whatever its flags say,
// and as long again as --authentication-token-webhook-cache-ttl, half a second here.
func testRevocation(t *testing.T, c *cloud) {
	c.organization(t, "revoking", "revoked")
	for what, revoke := range map[string]func(t *testing.T, user, access string, session wire.Session) (ended, kept string){
		"the user is disabled": func(t *testing.T, user, access string, _ wire.Session) (string, string) {
			c.patch(t, "users", user, `{"spec":{"disabled":true}}`)
			return access, ""
		},
		"all tokens are ended": func(t *testing.T, user, _ string, s wire.Session) (string, string) {
			after := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
			c.patch(t, "users", user, fmt.Sprintf(`{"status":{"tokensValidAfter":%q}}`, after), "status")
			return s.AccessToken, ""
		},
		"the user is deleted": func(t *testing.T, user, _ string, s wire.Session) (string, string) {
			if err := c.ours.Delete().Resource("users").Name(user).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
			return s.AccessToken, ""
		},
		"the session is logged out of": func(t *testing.T, _, access string, s wire.Session) (string, string) {
			c.expect(t, http.StatusNoContent, http.MethodPost, wire.PathLogout, "", wire.LogoutRequest{RefreshToken: s.RefreshToken}, nil)
			return s.AccessToken, access
		},
		"the access token is deleted": func(t *testing.T, user, access string, s wire.Session) (string, string) {
			if err := c.ours.Delete().Resource("accesstokens").Name(c.tokenName(t, user)).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
			return access, s.AccessToken
		},
		"the access token is revoked": func(t *testing.T, user, access string, s wire.Session) (string, string) {
			c.expect(t, http.StatusNoContent, http.MethodDelete, wire.PathTokens+"/"+c.tokenName(t, user), s.AccessToken, nil, nil)
			return access, s.AccessToken
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			user := strings.ReplaceAll(what, " ", "-")
			c.user(t, user, "revoking", nil, "revoked=member")
			_, access := c.accessToken(t, user)
			session := c.login(t, c.service, user)
			for _, raw := range []string{access, session.AccessToken} {
				eventually(t, "the token is accepted", func() error { _, err := c.whoIs(t, raw); return err })
			}
			ended, kept := revoke(t, user, access, session)
			asked := c.client(t, c.apiServerPair(t))
			took := eventually(t, "the service refuses", func() error {
				if status, err := judge(t.Context(), asked, c.service, ended); err != nil || status.Authenticated {
					return fmt.Errorf("%v %w", status, err)
				}
				return nil
			})
			eventually(t, "the API server refuses", func() error {
				if _, err := c.whoIs(t, ended); !apierrors.IsUnauthorized(err) {
					return fmt.Errorf("accepted, or %w", err)
				}
				return nil
			})
			t.Logf("refused after %s", took.Round(time.Millisecond))
			if took > 3*time.Second {
				t.Errorf("that took %s", took)
			}
			if kept != "" {
				if _, err := c.whoIs(t, kept); err != nil {
					t.Errorf("another token was refused too: %v", err)
				}
			}
		})
	}
}

// tokenName is the name of a user's access token.
func (c *cloud) tokenName(t *testing.T, user string) string {
	t.Helper()
	var list v1alpha1.AccessTokenList
	if err := c.ours.Get().Resource("accesstokens").Do(t.Context()).Into(&list); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(item v1alpha1.AccessToken) bool { return item.Spec.User == user })
	if i < 0 {
		t.Fatalf("%s has no access token", user)
	}
	return list.Items[i].Name
}

// testRotationUnderLoad has tokens of all ages judged by two replicas while keys rotate.
func testRotationUnderLoad(t *testing.T, c *cloud) {
	c.organization(t, "rotating", "rotated")
	c.user(t, "rita", "rotating", nil, "rotated=member")
	listener := listen(t)
	replicas := []*replica{c.service, c.run(t, listener, c.service.url)}
	session := c.login(t, c.service, "rita")
	eventually(t, "both replicas know rita", func() error {
		status, err := judge(t.Context(), c.client(t, c.apiServerPair(t)), replicas[1], session.AccessToken)
		if err == nil && !status.Authenticated {
			err = errors.New(status.Error)
		}
		return err
	})

	ctx, cancel := context.WithCancel(t.Context())
	var judged, refreshed atomic.Int64
	var group sync.WaitGroup
	for worker := range 4 {
		client, plain := c.client(t, c.apiServerPair(t)), c.client(t, nil)
		group.Go(func() {
			tokens := []string{session.AccessToken}
			for i := 0; ctx.Err() == nil; i++ {
				if i%20 == worker {
					var next wire.Session
					code, err := call(t.Context(), plain, http.MethodPost, replicas[i%2].url+wire.PathRefresh, "", wire.RefreshRequest{RefreshToken: session.RefreshToken}, &next)
					if err != nil || code != http.StatusOK {
						t.Errorf("refresh: %d %v", code, err)
						return
					}
					tokens = append(tokens, next.AccessToken)
					refreshed.Add(1)
				}
				status, err := judge(t.Context(), client, replicas[(i+worker)%2], tokens[i%len(tokens)])
				if err != nil || !status.Authenticated {
					t.Errorf("refused in the middle of a rotation: %+v %v", status, err)
					return
				}
				judged.Add(1)
			}
		})
	}
	for i := range 2 {
		before, _, err := c.service.keeper.Signing()
		if err != nil {
			t.Fatal(err)
		}
		if err := replicas[i].RotateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the new key signs", func() error {
			if id, _, err := c.service.keeper.Signing(); err != nil || id == before {
				return fmt.Errorf("%s signs: %w", id, err)
			}
			return nil
		})
	}
	cancel()
	group.Wait()
	t.Logf("%d tokens judged, %d made", judged.Load(), refreshed.Load())
	if judged.Load() < 100 || refreshed.Load() < 4 {
		t.Error("that was no load")
	}
	if public := c.service.keeper.Public(); len(public.Keys) != 3 {
		t.Errorf("%d keys verify", len(public.Keys))
	}
}

// TestServiceAnswersWhileTheAPIServerIsAway stops the API server under a running service.
func TestServiceAnswersWhileTheAPIServerIsAway(t *testing.T) {
	c := newCloud(t)
	c.organization(t, "acme", "web")
	c.user(t, "ann", "acme", nil, "web=member")
	_, access := c.accessToken(t, "ann")
	session := c.login(t, c.service, "ann")
	client, plain := c.client(t, c.apiServerPair(t)), c.client(t, nil)
	accepted := func(raw string) error {
		status, err := judge(t.Context(), client, c.service, raw)
		if err == nil && !status.Authenticated {
			err = errors.New(status.Error)
		}
		return err
	}
	eventually(t, "the access token is known", func() error { return accepted(access) })
	if err := c.api.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{access, session.AccessToken} {
		if err := accepted(raw); err != nil {
			t.Error(err)
		}
	}
	c.login(t, c.service, "ann")
	var next wire.Session
	code, err := call(t.Context(), plain, http.MethodPost, c.service.url+wire.PathRefresh, "", wire.RefreshRequest{RefreshToken: session.RefreshToken}, &next)
	if err != nil || code != http.StatusOK {
		t.Errorf("refresh: %d %v", code, err)
	}
	var status metav1.Status
	code, err = call(t.Context(), plain, http.MethodPost, c.service.url+wire.PathLogout, "", wire.LogoutRequest{RefreshToken: session.RefreshToken}, &status)
	if err != nil || code != http.StatusServiceUnavailable || status.Reason != metav1.StatusReasonServiceUnavailable {
		t.Errorf("a logout that cannot be kept is answered with %d %+v %v", code, status, err)
	}
}

// testMutualTLS is about who may ask.
func testMutualTLS(t *testing.T, c *cloud) {
	c.organization(t, "asking", "asked")
	c.organization(t, "spying", "spied")
	c.user(t, "ada", "asking", nil, "asked=member")
	c.user(t, "eva", "spying", nil, "spied=member")
	ada, eva := c.login(t, c.service, "ada").AccessToken, c.login(t, c.service, "eva").AccessToken

	if _, err := judge(t.Context(), c.client(t, nil), c.service, ada); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a certificate: %v", err)
	}
	foreign := &cloud{files: newFiles(t)}
	if _, err := judge(t.Context(), c.client(t, foreign.apiServerPair(t)), c.service, ada); err == nil || strings.Contains(err.Error(), "answered") {
		t.Errorf("with a certificate of another authority: %v", err)
	}
	other, _, err := c.service.Authority().Issue(pki.Leaf{Name: "x", CA: pki.ClusterCA, CommonName: "ada", Client: true}, authority.Pair{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := judge(t.Context(), c.client(t, &other), c.service, ada); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("with a certificate of somebody else: %v", err)
	}

	secret, err := c.service.Clients().Ensure(t.Context(), authority.Client{Name: "tenant", Organization: "asking", Project: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := c.client(t, &authority.Pair{Cert: secret.Data["tls.crt"], Key: secret.Data["tls.key"]})
	for raw, want := range map[string]bool{ada: true, eva: false} {
		if status, err := judge(t.Context(), tenant, c.service, raw); err != nil || status.Authenticated != want {
			t.Errorf("%+v %v", status, err)
		}
	}
	if err := c.service.Clients().Revoke(t.Context(), "tenant"); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "the open connection is refused", func() error {
		if _, err := judge(t.Context(), tenant, c.service, ada); err == nil || !strings.Contains(err.Error(), "401") {
			return fmt.Errorf("not refused, or %w", err)
		}
		return nil
	})
	t.Logf("refused after %s", took.Round(time.Millisecond))
	tenant.CloseIdleConnections()
	if _, err := judge(t.Context(), tenant, c.service, ada); err == nil || strings.Contains(err.Error(), "answered") {
		t.Errorf("a new connection is accepted: %v", err)
	}
}

func testOldTLS(t *testing.T, c *cloud) {
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(c.service.url, "https://"), old)
	if err == nil {
		_ = connection.Close()
		t.Error("TLS 1.2 is accepted")
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	good := Config{Namespace: "x", Address: ":3000", Issuer: "https://iam.example:3000"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"namespace":        func(c *Config) { c.Namespace = "" },
		"address":          func(c *Config) { c.Address = "3000" },
		"issuer":           func(c *Config) { c.Issuer = "http://iam.example" },
		"https URL":        func(c *Config) { c.Issuer = "https://iam.example/path" },
		"session lifetime": func(c *Config) { c.SessionLifetime = time.Minute },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
