package session

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func TestChangingOnesPasswordEndsEverything(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	caller, other := w.caller(t, "ann", wire.Scope{}), w.login(t, "ann", wire.Scope{})
	made, err := w.service.CreateToken(t.Context(), caller, wire.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	change := func(current, next string) error {
		return w.service.ChangePassword(t.Context(), caller, wire.PasswordRequest{Current: current, New: next}, "192.0.2.1")
	}
	assertFailure(t, change("wrong", "battery staple"), http.StatusForbidden)
	assertFailure(t, change("", "battery staple"), http.StatusForbidden)
	assertFailure(t, change(goodPassword, "short"), http.StatusUnprocessableEntity)
	if !w.accepts(other.AccessToken) {
		t.Fatal("a change that failed ended a session")
	}
	w.clock.Step(300 * time.Millisecond)
	if err := change(goodPassword, "battery staple"); err != nil {
		t.Fatal(err)
	}
	if w.accepts(other.AccessToken) || w.accepts(made.Token) {
		t.Error("what was given before is accepted")
	}
	if _, err := w.service.Login(t.Context(), wire.LoginRequest{Email: "ann@example.com", Password: goodPassword}, "192.0.2.1"); err == nil {
		t.Error("the old password is accepted")
	}
	again, err := w.service.Login(t.Context(), wire.LoginRequest{Email: "ann@example.com", Password: "battery staple"}, "192.0.2.1")
	if err != nil || !w.accepts(again.AccessToken) {
		t.Errorf("a login within the same second is not accepted: %v", err)
	}
	if _, err := w.service.Refresh(wire.RefreshRequest{RefreshToken: again.RefreshToken}); err != nil {
		t.Error(err)
	}
	w.service.Wait()
}

func TestGuessingTheCurrentPasswordTakesLonger(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	caller := w.caller(t, "ann", wire.Scope{})
	request := wire.PasswordRequest{Current: "wrong", New: "battery staple"}
	for range 5 {
		assertFailure(t, w.service.ChangePassword(t.Context(), caller, request, "192.0.2.1"), http.StatusForbidden)
	}
	assertFailure(t, w.service.ChangePassword(t.Context(), caller, request, "192.0.2.1"), http.StatusTooManyRequests)
}

// people are all kinds of callers, logged in.
func people(t *testing.T, w *world) map[string]*review.Identity {
	t.Helper()
	w.user(t, "root", "umbrella").Spec.PlatformAdmin = true
	w.user(t, "boss", "acme").Spec.OrganizationAdmin = true
	w.user(t, "lead", "acme", member("web", v1alpha1.RoleAdmin))
	w.user(t, "ann", "acme", member("web", v1alpha1.RoleMember))
	w.user(t, "eve", "umbrella", member("lab", v1alpha1.RoleAdmin))
	w.robot(t, "ci", "acme", "web")
	w.robot(t, "shopbot", "acme", "shop")
	w.robot(t, "bigbot", "acme", "web").Spec.OrganizationAdmin = true
	operator := w.user(t, "operator", "acme")
	operator.Spec.PlatformAdmin = true
	callers := map[string]*review.Identity{}
	for _, name := range []string{"root", "boss", "lead", "ann", "eve"} {
		callers[name] = w.caller(t, name, wire.Scope{})
	}
	callers["confined boss"] = w.caller(t, "boss", wire.Scope{Project: "web"})
	return callers
}

func TestWhoIsResponsibleForWhom(t *testing.T) {
	w := newWorld(t)
	callers := people(t, w)
	all := []string{"root", "boss", "lead", "ann", "eve", "ci", "shopbot", "bigbot", "operator", "nobody"}
	for caller, targets := range map[string]string{
		"root": "root boss lead ann eve ci shopbot bigbot operator",
		"boss": "boss lead ann ci shopbot bigbot",
		"lead": "lead ci",
		"ann":  "ann",
		"eve":  "eve",
		// confined to a project, an administrator is that project's
		"confined boss": "boss ci",
	} {
		for _, target := range all {
			_, err := w.service.responsible(callers[caller], target)
			want := strings.Contains(" "+targets+" ", " "+target+" ")
			if (err == nil) != want {
				t.Errorf("%s for %s: %v", caller, target, err)
			}
			if err != nil {
				assertFailure(t, err, http.StatusForbidden)
			}
		}
	}
}

func TestAdministratorsSetPasswords(t *testing.T) {
	w := newWorld(t)
	callers := people(t, w)
	set := func(caller, user string) error {
		return w.service.ChangePassword(t.Context(), callers[caller], wire.PasswordRequest{User: user, New: "battery staple"}, "192.0.2.1")
	}
	assertFailure(t, set("lead", "ann"), http.StatusForbidden)
	assertFailure(t, set("boss", "ci"), http.StatusUnprocessableEntity)
	assertFailure(t, set("boss", "boss"), http.StatusForbidden) // one's own needs the current one
	if err := set("boss", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Login(t.Context(), wire.LoginRequest{Email: "ann@example.com", Password: "battery staple"}, "192.0.2.1"); err != nil {
		t.Error(err)
	}
	w.service.Wait()
}

func TestAccessTokensAreMadeListedAndRevoked(t *testing.T) {
	w := newWorld(t)
	callers := people(t, w)
	expires := start.Add(24 * time.Hour)
	made, err := w.service.CreateToken(t.Context(), callers["lead"], wire.TokenRequest{User: "ci", Description: "builds", Project: "web", ExpiresAt: &expires})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.Token, "pct_") || !strings.HasPrefix(made.Name, "ci-") || !made.CreatedAt.Equal(start) {
		t.Errorf("%+v", made)
	}
	id, err := w.reviewer.Authenticate(made.Token, review.Scope{})
	if err != nil || id.User.Name != "ci" || id.User.Username != "sa-ci@web" || !id.ExpiresAt.Equal(expires) {
		t.Errorf("%+v, %v", id, err)
	}
	if stored := w.objects.AccessTokens[0]; stored.Annotations[v1alpha1.AnnotationCreatedBy] != "lead@example.com" || strings.Contains(fmt.Sprint(stored), made.Token) {
		t.Errorf("stored %+v", stored)
	}
	list, err := w.service.Tokens(callers["boss"], "ci")
	if err != nil || len(list.Items) != 1 || list.Items[0].Token != "" || list.Items[0].Name != made.Name || list.Items[0].Description != "builds" {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = w.service.Tokens(callers["ann"], "ci")
	assertFailure(t, err, http.StatusForbidden)
	assertFailure(t, w.service.RevokeToken(t.Context(), callers["eve"], made.Name), http.StatusNotFound)
	assertFailure(t, w.service.RevokeToken(t.Context(), callers["eve"], "none"), http.StatusNotFound)
	if err := w.service.RevokeToken(t.Context(), callers["boss"], made.Name); err != nil || w.accepts(made.Token) {
		t.Errorf("the token goes on: %v", err)
	}
	if strings.Contains(w.log.String(), made.Token) {
		t.Error("the token is in the log")
	}
}

func TestTokensThatAreNotMade(t *testing.T) {
	w := newWorld(t)
	callers := people(t, w)
	past := start.Add(-time.Hour)
	for name, c := range map[string]struct {
		caller  string
		request wire.TokenRequest
		code    int
	}{
		"for another":              {"ann", wire.TokenRequest{User: "lead"}, http.StatusForbidden},
		"for another organization": {"eve", wire.TokenRequest{User: "ci"}, http.StatusForbidden},
		"of a foreign project":     {"ann", wire.TokenRequest{Project: "shop"}, http.StatusUnprocessableEntity},
		"that is over":             {"ann", wire.TokenRequest{ExpiresAt: &past}, http.StatusUnprocessableEntity},
		"with a novel":             {"ann", wire.TokenRequest{Description: strings.Repeat("x", 201)}, http.StatusUnprocessableEntity},
		"beyond one's session":     {"confined boss", wire.TokenRequest{Project: "shop"}, http.StatusForbidden},
	} {
		_, err := w.service.CreateToken(t.Context(), callers[c.caller], c.request)
		t.Log(name, err)
		assertFailure(t, err, c.code)
	}
	confined, err := w.service.CreateToken(t.Context(), callers["confined boss"], wire.TokenRequest{})
	if err != nil || confined.Project != "web" {
		t.Errorf("%+v, %v", confined, err)
	}
	byToken, err := w.reviewer.Authenticate(confined.Token, review.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.service.CreateToken(t.Context(), byToken, wire.TokenRequest{})
	assertFailure(t, err, http.StatusForbidden)
	for range maxTokens {
		if _, err = w.service.CreateToken(t.Context(), callers["ann"], wire.TokenRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.service.CreateToken(t.Context(), callers["ann"], wire.TokenRequest{})
	assertFailure(t, err, http.StatusUnprocessableEntity)
	w.away = errors.New("the API server is away")
	if _, err := w.service.CreateToken(t.Context(), callers["lead"], wire.TokenRequest{}); err == nil {
		t.Error("a token was made that is not kept")
	}
}

func TestATokenMadeRightAfterAChangeOfPasswordIsGood(t *testing.T) {
	w := newWorld(t)
	w.user(t, "ann", "acme")
	w.clock.Step(300 * time.Millisecond)
	caller := w.caller(t, "ann", wire.Scope{})
	if err := w.service.ChangePassword(t.Context(), caller, wire.PasswordRequest{Current: goodPassword, New: goodPassword}, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	caller = w.caller(t, "ann", wire.Scope{})
	done := make(chan *wire.Token)
	go func() {
		made, err := w.service.CreateToken(t.Context(), caller, wire.TokenRequest{})
		if err != nil {
			t.Error(err)
		}
		done <- made
	}()
	for !w.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	w.clock.Step(700 * time.Millisecond)
	if made := <-done; made != nil && !w.accepts(made.Token) {
		t.Error("the token is not accepted")
	}
}

func TestWhoami(t *testing.T) {
	w := newWorld(t)
	callers := people(t, w)
	who := w.service.Whoami(callers["boss"])
	if who.Name != "boss" || who.ID != "user-boss" || who.Kind != "Person" || !who.OrganizationAdmin || who.PlatformAdmin || who.Organization != "acme" ||
		len(who.Projects) != 2 || who.Projects[0] != (wire.Membership{Project: "shop", Role: "admin"}) || who.ExpiresAt == nil {
		t.Errorf("%+v", who)
	}
}
