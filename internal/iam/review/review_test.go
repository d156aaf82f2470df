package review

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/token"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is two organizations with their projects and people, to be changed before it is looked at.
type world struct {
	objects directory.Objects
	clock   *clocktesting.FakePassiveClock
	claims  map[string]*token.Claims // session tokens by their text
	used    []string
}

func newWorld() *world {
	w := &world{clock: clocktesting.NewFakePassiveClock(start), claims: map[string]*token.Claims{}}
	for organization, projects := range map[string][]string{"acme": {"web", "shop"}, "umbrella": {"lab"}} {
		w.objects.Organizations = append(w.objects.Organizations, &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: organization}})
		for _, project := range projects {
			w.objects.Projects = append(w.objects.Projects, &v1alpha1.Project{
				ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: v1alpha1.ProjectSpec{Organization: organization},
			})
		}
	}
	return w
}

// user adds a person with memberships such as web=viewer, and a session token and an access token of the same name.
func (w *world) user(name, organization string, memberships ...string) *v1alpha1.User {
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))},
		Spec:       v1alpha1.UserSpec{Kind: v1alpha1.UserPerson, Organization: organization, Email: name + "@example.com"},
	}
	for _, m := range memberships {
		project, role, _ := strings.Cut(m, "=")
		u.Spec.Projects = append(u.Spec.Projects, v1alpha1.Membership{Project: project, Role: v1alpha1.Role(role)})
	}
	w.objects.Users = append(w.objects.Users, u)
	w.claims[name] = &token.Claims{
		Claims: jwt.Claims{
			Subject: "user-" + name + "-uid", Audience: jwt.Audience{token.Audience},
			IssuedAt: jwt.NewNumericDate(start), Expiry: jwt.NewNumericDate(start.Add(token.Lifetime)),
		},
		Session: "session-" + name,
	}
	w.access(name)
	return u
}

func (w *world) access(user string) *v1alpha1.AccessToken {
	t := &v1alpha1.AccessToken{
		ObjectMeta: metav1.ObjectMeta{Name: user + "-token", CreationTimestamp: metav1.NewTime(start)},
		Spec:       v1alpha1.AccessTokenSpec{User: user, SHA256: token.HashAccess("pct_" + user)},
	}
	w.objects.AccessTokens = append(w.objects.AccessTokens, t)
	return t
}

func (w *world) View() *directory.View   { return directory.NewView(w.objects) }
func (w *world) Used(t *directory.Token) { w.used = append(w.used, t.Name) }
func (w *world) Verify(raw string) (*token.Claims, error) {
	if claims, ok := w.claims[raw]; ok {
		return claims, nil
	}
	return nil, token.ErrInvalid
}

func (w *world) review(raw string, scope Scope) authenticationv1.TokenReviewStatus {
	return New(w, w, w, w.clock).Review(raw, scope)
}

// assertBoth reviews the user's session token and access token.
func (w *world) assertBoth(t *testing.T, user string, scope Scope, want *authenticationv1.UserInfo) {
	t.Helper()
	for _, raw := range []string{user, "pct_" + user} {
		status := w.review(raw, scope)
		if want == nil {
			if status.Authenticated || status.Error != "Invalid or expired token" || status.User.Username != "" {
				t.Errorf("%s: %+v", raw, status)
			}
			continue
		}
		got := status.User
		if !status.Authenticated || status.Error != "" || got.Username != want.Username || !slices.Equal(got.Groups, want.Groups) {
			t.Errorf("%s: got %+v, want %+v", raw, got, want)
		}
		for key, values := range want.Extra {
			if !slices.Equal(got.Extra[key], values) {
				t.Errorf("%s: %s is %q, want %q", raw, key, got.Extra[key], values)
			}
		}
	}
}

func TestMappingIsThatOfTheSpecification(t *testing.T) {
	w := newWorld()
	w.user("ann", "acme", "web=member")
	w.user("both", "acme", "web=admin", "shop=viewer")
	w.user("eve", "umbrella", "lab=member")
	w.user("vic", "acme", "web=viewer")
	w.user("boss", "acme", "web=viewer").Spec.OrganizationAdmin = true
	w.user("root", "acme").Spec.PlatformAdmin = true
	w.user("nomail", "acme", "web=member").Spec.Email = ""
	robot := w.user("ci", "acme", "web=member")
	robot.Spec.Kind, robot.Spec.Email = v1alpha1.UserServiceAccount, ""
	auditor := w.user("audit", "umbrella", "lab=viewer")
	auditor.Spec.Kind, auditor.Spec.Email = v1alpha1.UserServiceAccount, ""

	for user, want := range map[string]authenticationv1.UserInfo{
		"ann":    info("ann@example.com", "acme", "web", "project_member", "org:acme", "project:web", "system:authenticated"),
		"both":   info("both@example.com", "acme", "shop web", "project_admin project_viewer", "org:acme", "project:shop:viewer", "project:web", "system:authenticated"),
		"eve":    info("eve@example.com", "umbrella", "lab", "project_member", "org:umbrella", "project:lab", "system:authenticated"),
		"vic":    info("vic@example.com", "acme", "web", "project_viewer", "org:acme", "project:web:viewer", "system:authenticated"),
		"boss":   info("boss@example.com", "acme", "shop web", "org_admin", "org:acme", "project:shop", "project:web", "k8s:org-admin", "org:acme:admin"),
		"root":   info("root@example.com", "acme", "", "platform_admin", "org:acme", "system:plasmacloud-admins", "system:authenticated"),
		"nomail": info("user-nomail-uid", "acme", "web", "project_member", "org:acme", "project:web", "system:authenticated"),
		"ci":     info("sa-ci@web", "acme", "web", "project_member", "org:acme", "project:web", "system:serviceaccounts"),
		"audit":  info("sa-audit@lab", "umbrella", "lab", "project_viewer", "org:umbrella", "project:lab:viewer", "system:serviceaccounts"),
	} {
		w.assertBoth(t, user, Scope{}, &want)
		if uid := w.review(user, Scope{}).User.UID; uid != "user-"+user+"-uid" {
			t.Errorf("%s has the uid %s", user, uid)
		}
	}
}

func info(username, organization, projects, roles string, groups ...string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{
		Username: username, Groups: groups,
		Extra: map[string]authenticationv1.ExtraValue{
			"org_id": {organization}, "project_id": strings.Fields(projects), "roles": strings.Fields(roles),
		},
	}
}

func TestWhatIsNotAccepted(t *testing.T) {
	earlier, now := metav1.NewTime(start.Add(-time.Hour)), metav1.NewTime(start.Add(time.Second))
	for name, change := range map[string]func(*world, *v1alpha1.User){
		"the user is disabled":      func(_ *world, u *v1alpha1.User) { u.Spec.Disabled = true },
		"the user is being deleted": func(_ *world, u *v1alpha1.User) { u.DeletionTimestamp = &now },
		"the user is gone":          func(w *world, _ *v1alpha1.User) { w.objects.Users = nil },
		"the organization is gone":  func(w *world, _ *v1alpha1.User) { w.objects.Organizations = nil },
		"all tokens were ended":     func(_ *world, u *v1alpha1.User) { u.Status.TokensValidAfter = &now },
		"the user is another one of the same name": func(_ *world, u *v1alpha1.User) {
			u.UID, u.CreationTimestamp = "other", now
		},
		"logged out, and the access token is revoked": func(w *world, u *v1alpha1.User) {
			u.Status.RevokedSessions = []v1alpha1.RevokedSession{{ID: "session-ann", Until: now}}
			w.objects.AccessTokens[0].Spec.Revoked = true
		},
		"the access token is being deleted, the session ended": func(w *world, u *v1alpha1.User) {
			u.Status.RevokedSessions = []v1alpha1.RevokedSession{{ID: "session-ann", Until: now}}
			w.objects.AccessTokens[0].DeletionTimestamp = &now
		},
		"expired": func(w *world, u *v1alpha1.User) {
			delete(w.claims, "ann")
			w.objects.AccessTokens[0].Spec.ExpiresAt = &earlier
		},
		"confined to a project that is not the user's": func(w *world, u *v1alpha1.User) {
			w.claims["ann"].ProjectID, w.claims["ann"].Confined = "shop", true
			w.objects.AccessTokens[0].Spec.Project = "lab"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			u := w.user("ann", "acme", "web=member")
			want := info("ann@example.com", "acme", "web", "project_member", "org:acme", "project:web", "system:authenticated")
			w.assertBoth(t, "ann", Scope{}, &want)
			change(w, u)
			w.assertBoth(t, "ann", Scope{}, nil)
		})
	}
	w := newWorld()
	for _, raw := range []string{"", "nonsense", "pct_", "pct_nonsense", strings.Repeat("x", 1<<20)} {
		if status := w.review(raw, Scope{}); status.Authenticated || status.Error != ErrorText {
			t.Errorf("%.20q: %+v", raw, status)
		}
	}
}

func TestConfinedTokensAreGoodInOneProjectOnly(t *testing.T) {
	w := newWorld()
	boss := w.user("boss", "acme")
	boss.Spec.OrganizationAdmin, boss.Spec.PlatformAdmin = true, true
	w.claims["boss"].ProjectID, w.claims["boss"].Confined = "web", true
	w.objects.AccessTokens[0].Spec.Project = "web"
	want := info("boss@example.com", "acme", "web", "project_admin", "org:acme", "project:web", "system:authenticated")
	w.assertBoth(t, "boss", Scope{}, &want)
}

func TestRolesThatAreLostAreLostAtOnce(t *testing.T) {
	w := newWorld()
	u := w.user("boss", "acme", "web=viewer")
	u.Spec.OrganizationAdmin = true
	w.claims["boss"].Roles = []string{"org_admin"}
	w.claims["boss"].Groups = []string{"k8s:org-admin"}
	u.Spec.OrganizationAdmin = false
	want := info("boss@example.com", "acme", "web", "project_viewer", "org:acme", "project:web:viewer", "system:authenticated")
	w.assertBoth(t, "boss", Scope{}, &want)
}

func TestAPIServersLearnOfTheirOwnUsersOnly(t *testing.T) {
	w := newWorld()
	w.user("ann", "acme", "web=member", "shop=viewer")
	w.user("sue", "acme", "shop=member")
	w.user("eve", "umbrella", "lab=member")
	w.user("boss", "acme").Spec.OrganizationAdmin = true
	w.user("root", "umbrella").Spec.PlatformAdmin = true
	all := func(user string) *authenticationv1.UserInfo { i := w.review(user, Scope{}).User; return &i }

	organization := Scope{Audience: "shared", Organization: "acme"}
	for user, want := range map[string]*authenticationv1.UserInfo{
		"ann": all("ann"), "sue": all("sue"), "boss": all("boss"), "root": all("root"), "eve": nil,
	} {
		w.assertBoth(t, user, organization, want)
	}
	web := Scope{Audience: "web-cluster", Organization: "acme", Project: "web"}
	ann := info("ann@example.com", "acme", "web", "project_member", "org:acme", "project:web", "system:authenticated")
	boss := info("boss@example.com", "acme", "web", "org_admin", "org:acme", "project:web", "k8s:org-admin", "org:acme:admin")
	for user, want := range map[string]*authenticationv1.UserInfo{"ann": &ann, "boss": &boss, "sue": nil, "eve": nil, "root": all("root")} {
		w.assertBoth(t, user, web, want)
	}
}

func TestTokensMadeForOneAPIServerAreRefusedByOthers(t *testing.T) {
	w := newWorld()
	w.user("ann", "acme", "web=member")
	w.claims["ann"].Audience = jwt.Audience{"web-cluster"}
	for audience, want := range map[string]bool{"web-cluster": true, "management": false, "": false} {
		if got := w.review("ann", Scope{Audience: audience}).Authenticated; got != want {
			t.Errorf("%q accepts it: %v", audience, got)
		}
	}
}

func TestErrorsSayNothing(t *testing.T) {
	w := newWorld()
	w.user("ann", "acme", "web=member").Spec.Disabled = true
	for _, raw := range []string{"ann", "pct_ann", "x"} {
		if _, err := New(w, w, w, w.clock).Authenticate(raw, Scope{}); !errors.Is(err, token.ErrInvalid) || err.Error() != token.ErrInvalid.Error() {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestUsesAreRecordedOnceAnHour(t *testing.T) {
	clk := clocktesting.NewFakeClock(start.Add(10 * time.Minute))
	writes := make(chan string, 10)
	fail := make(chan error, 10)
	recorder := NewRecorder(func(_ context.Context, name string, at time.Time) error {
		writes <- name + at.Format(" 15:04")
		return <-fail
	}, clk, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); recorder.Run(ctx) }()

	written := func() string { // lets time pass until something is
		for {
			select {
			case got := <-writes:
				return got
			case <-time.After(time.Millisecond):
				clk.Step(pace)
			}
		}
	}

	unused := &directory.Token{Name: "t1"}
	recorder.Used(unused)
	if got := written(); got != "t1 12:00" {
		t.Errorf("wrote %s", got)
	}
	for range 100 {
		recorder.Used(unused) // is being written
	}
	recorder.Used(&directory.Token{Name: "t2", LastUsed: start})
	fail <- errors.New("the API server is away")
	clk.SetTime(start.Add(time.Hour))
	recorder.Used(&directory.Token{Name: "t2", LastUsed: start})
	if got := written(); got != "t2 13:00" {
		t.Errorf("wrote %s", got)
	}
	fail <- nil
	cancel()
	<-done
	for range 2 * waiting { // nobody writes, and nobody waits
		recorder.Used(&directory.Token{Name: "t3"})
	}
	if len(writes) != 0 {
		t.Errorf("wrote %s", <-writes)
	}
}
