package session

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func TestLoginGivesTokens(t *testing.T) {
	w := newWorld(t)
	ann := w.user(t, "ann", "acme", member("web", v1alpha1.RoleMember))
	s := w.login(t, "ann", wire.Scope{})
	if s.TokenType != "Bearer" || s.User != "ann" || !s.ExpiresAt.Equal(start.Add(15*time.Minute)) || !s.SessionExpiresAt.Equal(start.Add(12*time.Hour)) {
		t.Errorf("%+v", s)
	}
	claims, err := w.service.Issuer.Verify(s.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if claims.Confined || claims.Subject != "user-ann" || claims.Email != "ann@example.com" || claims.OrgID != "acme" || claims.ProjectID != "web" ||
		!slices.Equal(claims.Roles, []string{"project_member"}) || claims.Username != "ann@example.com" ||
		!slices.Equal(claims.Groups, []string{"org:acme", "project:web", "system:authenticated"}) {
		t.Errorf("claims %+v", claims)
	}
	if ann.Status.LastLogin == nil || !ann.Status.LastLogin.Time.Equal(start) {
		t.Error("the login was not noted")
	}
	if !w.accepts(s.AccessToken) || w.accepts(s.RefreshToken) {
		t.Error("the tokens are not what they should be")
	}
	if w.login(t, "ANN", wire.Scope{}).User != "ann" {
		t.Error("the address is not the same in capitals")
	}
}

func TestUsersOfSeveralProjectsHaveAllOrOne(t *testing.T) {
	w := newWorld(t)
	w.user(t, "both", "acme", member("web", v1alpha1.RoleAdmin), member("shop", v1alpha1.RoleViewer))
	for scope, want := range map[string][]string{
		"":    {"org:acme", "project:shop:viewer", "project:web", "system:authenticated"},
		"web": {"org:acme", "project:web", "system:authenticated"},
	} {
		if got := w.caller(t, "both", wire.Scope{Project: scope}).Groups(); !slices.Equal(got, want) {
			t.Errorf("%q: %v", scope, got)
		}
	}
	_, err := w.service.Login(t.Context(), wire.LoginRequest{Email: "both@example.com", Password: goodPassword, Scope: wire.Scope{Project: "lab"}}, "192.0.2.1")
	assertFailure(t, err, http.StatusForbidden)
}

func TestTokensOfLargeOrganizationsStaySmall(t *testing.T) {
	w := newWorld(t)
	w.user(t, "boss", "acme").Spec.OrganizationAdmin = true
	for i := range 500 {
		w.objects.Projects = append(w.objects.Projects, &v1alpha1.Project{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1alpha1.ProjectSpec{Organization: "acme"},
		})
	}
	s := w.login(t, "boss", wire.Scope{})
	if len(s.AccessToken) > 2048 {
		t.Errorf("the token has %d bytes", len(s.AccessToken))
	}
	id, err := w.reviewer.Authenticate(s.AccessToken, review.Scope{})
	if err != nil || len(id.Groups()) != 502+3 {
		t.Errorf("%d groups, %v", len(id.Groups()), err)
	}
}

func TestWhoIsNotLetIn(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	w.user(t, "out", "acme").Spec.Disabled = true
	w.user(t, "lost", "gone")
	robot := w.robot(t, "ci", "acme", "web")
	robot.Spec.Email = "ci@example.com"
	try := func(email, given string) error {
		_, err := w.service.Login(t.Context(), wire.LoginRequest{Email: email, Password: given}, "192.0.2.1")
		return err
	}
	var messages []string
	for _, c := range [][2]string{
		{"ann@example.com", "wrong"}, {"out@example.com", goodPassword}, {"lost@example.com", goodPassword},
		{"ci@example.com", goodPassword}, {"nobody@example.com", goodPassword}, {"ann", goodPassword}, {"hunter2", "x"},
	} {
		err := try(c[0], c[1])
		assertFailure(t, err, http.StatusUnauthorized)
		messages = append(messages, fmt.Sprint(err))
	}
	if len(slices.Compact(messages)) != 1 {
		t.Errorf("the answers tell users apart: %q", messages)
	}
	assertFailure(t, try("", goodPassword), http.StatusBadRequest)
	assertFailure(t, try("ann@example.com", ""), http.StatusBadRequest)
	for _, secret := range []string{"hunter2", goodPassword, "wrong", "nobody@"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("%q is in the log: %s", secret, &w.log)
		}
	}
}

func TestGuessingAPasswordTakesLonger(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	w.user(t, "bob", "acme")
	try := func(name, given, address string) error {
		_, err := w.service.Login(t.Context(), wire.LoginRequest{Email: name + "@example.com", Password: given}, address)
		return err
	}
	for range 5 {
		assertFailure(t, try("ann", "wrong", "192.0.2.1"), http.StatusUnauthorized)
	}
	err := try("ann", goodPassword, "192.0.2.2") // from elsewhere, and the right one
	assertFailure(t, err, http.StatusTooManyRequests)
	var failed *Failure
	if errors.As(err, &failed) && failed.RetryAfter != 1 {
		t.Errorf("retry after %d", failed.RetryAfter)
	}
	if err := try("bob", goodPassword, "192.0.2.1"); err != nil {
		t.Errorf("another account has to wait: %v", err)
	}
	w.clock.Step(time.Second)
	assertFailure(t, try("ann", "wrong", "192.0.2.1"), http.StatusUnauthorized)
	w.clock.Step(time.Second)
	assertFailure(t, try("ann", goodPassword, "192.0.2.1"), http.StatusTooManyRequests) // two seconds by now
	w.clock.Step(time.Second)
	if err := try("ann", goodPassword, "192.0.2.1"); err != nil {
		t.Error(err)
	}
	for range 5 { // forgotten with the right password
		assertFailure(t, try("ann", "wrong", "192.0.2.1"), http.StatusUnauthorized)
	}
	// Unknown accounts wait as known ones do.
	for range 5 {
		assertFailure(t, try("nobody", "wrong", "192.0.2.9"), http.StatusUnauthorized)
	}
	assertFailure(t, try("nobody", "wrong", "192.0.2.8"), http.StatusTooManyRequests)
	w.service.Wait()
}

func TestGuessingUsersFromOneAddressTakesLonger(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	login := func(email, address string) error {
		_, err := w.service.Login(t.Context(), wire.LoginRequest{Email: email, Password: goodPassword}, address)
		return err
	}
	for i := range 30 {
		if i == 15 { // a login that succeeds counts for nothing
			if err := login("ann@example.com", "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
		assertFailure(t, login(fmt.Sprintf("user%d@example.com", i), "192.0.2.1"), http.StatusUnauthorized)
	}
	for range 10 { // which does not lock the account
		assertFailure(t, login("ann@example.com", "192.0.2.1"), http.StatusTooManyRequests)
	}
	if err := login("ann@example.com", "192.0.2.2"); err != nil {
		t.Errorf("another address has to wait: %v", err)
	}
	w.service.Wait()
}

func TestRefreshFollowsTheUser(t *testing.T) {
	w := newWorld(t)
	ann := w.user(t, "ann", "acme", member("web", v1alpha1.RoleMember))
	s := w.login(t, "ann", wire.Scope{})
	refresh := func(scope wire.Scope) (*wire.Session, error) {
		return w.service.Refresh(wire.RefreshRequest{RefreshToken: s.RefreshToken, Scope: scope})
	}
	w.clock.Step(20 * time.Minute)
	if w.accepts(s.AccessToken) {
		t.Error("the access token is accepted after its end")
	}
	ann.Spec.Projects = append(ann.Spec.Projects, member("shop", v1alpha1.RoleViewer))
	next, err := refresh(wire.Scope{})
	if err != nil || next.RefreshToken != s.RefreshToken || !next.SessionExpiresAt.Equal(s.SessionExpiresAt) {
		t.Fatalf("%+v, %v", next, err)
	}
	if id, err := w.reviewer.Authenticate(next.AccessToken, review.Scope{}); err != nil || len(id.Memberships) != 2 {
		t.Errorf("%+v, %v", id, err)
	}
	bound, err := refresh(wire.Scope{Project: "web", Audience: "web-cluster"})
	if err != nil || w.accepts(bound.AccessToken) {
		t.Errorf("a token for an API server is accepted elsewhere: %v", err)
	}
	if id, err := w.reviewer.Authenticate(bound.AccessToken, review.Scope{Audience: "web-cluster"}); err != nil || id.Project != "web" {
		t.Errorf("%+v, %v", id, err)
	}
	w.clock.SetTime(s.SessionExpiresAt.Add(-time.Minute))
	if last, err := refresh(wire.Scope{}); err != nil || !last.ExpiresAt.Equal(s.SessionExpiresAt) {
		t.Errorf("a token outlives its session: %+v, %v", last, err)
	}
	w.clock.SetTime(s.SessionExpiresAt)
	_, err = refresh(wire.Scope{})
	assertFailure(t, err, http.StatusUnauthorized)
}

func TestRefreshIsRefused(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.User){
		"disabled": func(u *v1alpha1.User) { u.Spec.Disabled = true },
		"ended": func(u *v1alpha1.User) {
			after := metav1.NewTime(start.Add(time.Second))
			u.Status.TokensValidAfter = &after
		},
		"replaced": func(u *v1alpha1.User) { u.UID = "another" },
	} {
		w := newWorld(t)
		ann := w.user(t, "ann", "acme")
		s := w.login(t, "ann", wire.Scope{})
		change(ann)
		if _, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: s.RefreshToken}); err == nil || w.accepts(s.AccessToken) {
			t.Errorf("%s: refreshed, or accepted", name)
		}
	}
	w := newWorld(t)
	w.user(t, "ann", "acme")
	s := w.login(t, "ann", wire.Scope{})
	for _, raw := range []string{"", "x", s.AccessToken} {
		_, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: raw})
		assertFailure(t, err, http.StatusUnauthorized)
	}
	for _, audience := range []string{"plasmacloud:refresh", "UPPER", "a b", strings.Repeat("a", 300)} {
		_, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: s.RefreshToken, Scope: wire.Scope{Audience: audience}})
		assertFailure(t, err, http.StatusUnprocessableEntity)
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	one, other := w.login(t, "ann", wire.Scope{}), w.login(t, "ann", wire.Scope{})
	for range 2 { // the second time nothing is left to do
		if err := w.service.Logout(t.Context(), wire.LogoutRequest{RefreshToken: one.RefreshToken}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: one.RefreshToken}); err == nil || w.accepts(one.AccessToken) {
		t.Error("the session goes on")
	}
	if !w.accepts(other.AccessToken) {
		t.Error("another session ended too")
	}
	if err := w.service.Logout(t.Context(), wire.LogoutRequest{RefreshToken: "x"}); err != nil {
		t.Error(err)
	}
	w.away = errors.New("the API server is away")
	if err := w.service.Logout(t.Context(), wire.LogoutRequest{RefreshToken: other.RefreshToken}); err == nil {
		t.Error("a logout that is not kept succeeds")
	}
}

func TestLoginAndRefreshGoOnWithoutTheAPI(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	w.away = errors.New("the API server is away")
	s := w.login(t, "ann", wire.Scope{})
	if _, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: s.RefreshToken}); err != nil {
		t.Error(err)
	}
}

func TestHashesAreMadeAnewWhenCostsChange(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	before := w.View().ByName("ann").PasswordHash
	w.login(t, "ann", wire.Scope{})
	if w.View().ByName("ann").PasswordHash != before {
		t.Error("a hash of the right costs was made anew")
	}
	costlier, err := password.NewHasher(password.Params{Memory: 128, Iterations: 1, Parallelism: 1}, 4)
	if err != nil {
		t.Fatal(err)
	}
	w.service.Hasher = costlier
	s := w.login(t, "ann", wire.Scope{})
	after := w.View().ByName("ann").PasswordHash
	if after == before || costlier.Outdated(after) {
		t.Errorf("the hash is %s", after)
	}
	if !w.accepts(s.AccessToken) {
		t.Error("that ended the session")
	}
	w.login(t, "ann", wire.Scope{})
}
