// Package session lets people in: it logs them in with their password, gives them tokens, renews those while the session
// lasts, and ends it. It also changes passwords and makes access tokens, for oneself and, where one is responsible, for
// others.
//
// A session is a refresh token, good for a working day, and the short-lived session tokens that come from it. Nothing is
// stored of a session while it lives: the refresh token is signed, and the user behind it is looked up each time. Logging
// out is what is stored, in the user's status, until the session would have ended. So logins and refreshes go on while
// the API server is away.
package session

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/throttle"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

const (
	// DefaultLifetime is how long one works after a login before the next.
	DefaultLifetime = 12 * time.Hour

	// maxGroups is how many groups a session token lists for those who verify offline. The token of somebody with more
	// stays small; offline, a token confined to a project does.
	maxGroups = 64

	// visible is how long a change waits to be seen by this replica before it is answered all the same.
	visible = 2 * time.Second
	// noteTimeout bounds what is written after the answer was given.
	noteTimeout = 30 * time.Second
)

// AccountPolicy is how often a password of one account may be wrong: five times, then the waits begin. They stay short:
// somebody who guesses must not lock the owner out for long.
func AccountPolicy() throttle.Policy {
	return throttle.Policy{Free: 5, First: time.Second, Longest: time.Minute, Forget: 15 * time.Minute, Keys: 50_000}
}

// AddressPolicy is how often logins from one address may fail; many people may share one.
func AddressPolicy() throttle.Policy {
	return throttle.Policy{Free: 30, First: time.Second, Longest: 5 * time.Minute, Forget: 15 * time.Minute, Keys: 50_000}
}

// Directory is where users are looked up, and changes are waited for.
type Directory interface {
	View() *directory.View
	Await(ctx context.Context, condition func(*directory.View) bool) error
}

// Writer is how changes are made, as store.Writer makes them.
type Writer interface {
	RecordLogin(ctx context.Context, user string, at time.Time) error
	EndTokens(ctx context.Context, user string, before time.Time) error
	RevokeSession(ctx context.Context, user, session string, now, until time.Time) error
	SavePassword(ctx context.Context, user, secret, key, hash string) error
	CreateAccessToken(ctx context.Context, token *v1alpha1.AccessToken) (*v1alpha1.AccessToken, error)
	RevokeAccessToken(ctx context.Context, name string) error
}

// Config is what a Service works with.
type Config struct {
	Directory Directory
	Writer    Writer
	Issuer    *token.Issuer
	Hasher    *password.Hasher
	// Accounts and Addresses count failed logins.
	Accounts, Addresses *throttle.Throttle
	// Lifetime of a session; DefaultLifetime where it is zero.
	Lifetime time.Duration
	Clock    clock.Clock
	Logger   *slog.Logger
}

// Service lets people in.
type Service struct {
	Config
	notes sync.WaitGroup
}

// New returns a Service.
func New(config Config) *Service {
	if config.Lifetime == 0 {
		config.Lifetime = DefaultLifetime
	}
	return &Service{Config: config}
}

// Wait returns when everything is written that answers did not wait for.
func (s *Service) Wait() { s.notes.Wait() }

// note does something that the answer does not wait for.
func (s *Service) note(ctx context.Context, what string, user string, do func(context.Context) error) {
	s.notes.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if err := do(ctx); err != nil {
			s.Logger.WarnContext(ctx, "cannot write down what happened", "what", what, "user", user, "error", err)
		}
	})
}

// Login begins a session. The address is where the request comes from.
func (s *Service) Login(ctx context.Context, request wire.LoginRequest, address string) (*wire.Session, error) {
	if request.Email == "" || request.Password == "" {
		return nil, failure(http.StatusBadRequest, "e-mail address and password are needed")
	}
	if err := checkAudience(request.Audience); err != nil {
		return nil, err
	}
	account := strings.ToLower(request.Email)
	if err := s.try(account, address); err != nil {
		s.Logger.WarnContext(ctx, "login has to wait", "address", address, "error", err)
		return nil, err
	}
	view := s.Directory.View()
	u := view.ByEmail(request.Email)
	ok, err := s.verify(ctx, u, request.Password)
	if err != nil {
		return nil, err
	}
	if !ok {
		// What was given as the name may be a password in the wrong field; known names are safe to log.
		name := "unknown"
		if u != nil {
			name = u.Name
		}
		s.Logger.WarnContext(ctx, "login refused", "user", name, "address", address)
		return nil, failure(http.StatusUnauthorized, "wrong e-mail address or password")
	}
	s.Accounts.Forget(account)
	s.Addresses.Forgive(address)
	now := s.Clock.Now()
	session := uuid.NewString()
	window := token.Window{From: notBefore(now, u), Until: now.Add(s.Lifetime)}
	refresh, err := s.Issuer.IssueRefresh(u.ID, session, window)
	if err != nil {
		return nil, err
	}
	granted, err := s.grant(view, u, session, refresh, window.Until, request.Scope)
	if err != nil {
		return nil, err
	}
	s.Logger.InfoContext(ctx, "logged in", "user", u.Name, "session", session, "address", address)
	s.note(ctx, "note login", u.Name, func(ctx context.Context) error { return s.Writer.RecordLogin(ctx, u.Name, now) })
	if s.Hasher.Outdated(u.PasswordHash) {
		s.note(ctx, "hash password anew", u.Name, func(ctx context.Context) error { return s.savePassword(ctx, u, request.Password) })
	}
	return granted, nil
}

// try counts an attempt to log in, or says how long to wait. Who has to wait counts for nothing: neither does knocking
// at one account lock an address out, nor the other way round.
func (s *Service) try(account, address string) error {
	if wait := max(s.Accounts.Wait(account), s.Addresses.Wait(address)); wait > 0 {
		return throttled(wait)
	}
	if wait := s.Addresses.Try(address); wait > 0 {
		return throttled(wait)
	}
	if wait := s.Accounts.Try(account); wait > 0 {
		return throttled(wait)
	}
	return nil
}

// verify judges a password. For nobody, and for those who may not log in, it takes as long and is always wrong.
func (s *Service) verify(ctx context.Context, u *directory.User, given string) (bool, error) {
	hash := ""
	if u != nil && !u.Disabled && !u.ServiceAccount {
		hash = u.PasswordHash
	}
	return s.Hasher.Verify(ctx, given, hash)
}

// notBefore is the time of issue of a token that is made now. Times in tokens are full seconds; one that is made right
// after all others were ended must not look older than that.
func notBefore(now time.Time, u *directory.User) time.Time {
	if now.Before(u.ValidAfter) {
		return u.ValidAfter
	}
	return now
}

// Refresh gives a session a new session token, for what the user is by now.
func (s *Service) Refresh(request wire.RefreshRequest) (*wire.Session, error) {
	if err := checkAudience(request.Audience); err != nil {
		return nil, err
	}
	claims, err := s.Issuer.VerifyRefresh(request.RefreshToken)
	if err != nil {
		return nil, expired()
	}
	view := s.Directory.View()
	u := view.ByID(claims.Subject)
	if u == nil || u.Disabled || !review.Live(u, claims) {
		return nil, expired()
	}
	return s.grant(view, u, claims.Session, request.RefreshToken, claims.Expiry.Time(), request.Scope)
}

// grant makes a session token.
func (s *Service) grant(view *directory.View, u *directory.User, session, refresh string, until time.Time, scope wire.Scope) (*wire.Session, error) {
	id, ok := review.Resolve(view, u, scope.Project)
	if !ok {
		return nil, failure(http.StatusForbidden, "you do not belong to the project "+scope.Project)
	}
	from := notBefore(s.Clock.Now(), u)
	window := token.Window{From: from, Until: from.Add(token.Lifetime)}
	if window.Until.After(until) {
		window.Until = until
	}
	raw, err := s.Issuer.Issue(claimsOf(id, session), scope.Audience, window)
	if err != nil {
		return nil, err
	}
	return &wire.Session{
		AccessToken: raw, TokenType: "Bearer", ExpiresAt: window.Until.UTC().Truncate(time.Second),
		RefreshToken: refresh, SessionExpiresAt: until.UTC().Truncate(time.Second), User: u.Name,
	}, nil
}

// claimsOf is what a session token says.
func claimsOf(id *review.Identity, session string) token.Claims {
	claims := token.Claims{
		Claims: jwt.Claims{Subject: id.User.ID}, Session: session,
		Username: id.User.Username, Email: id.User.Email, OrgID: id.User.Organization, ProjectID: id.Project, Confined: id.Project != "", Roles: id.Roles(),
	}
	if len(id.Memberships) == 1 && !id.OrganizationAdmin && !id.PlatformAdmin {
		claims.ProjectID = id.Memberships[0].Project
	}
	if groups := id.Groups(); len(groups) <= maxGroups {
		claims.Groups = groups
	}
	return claims
}

// Logout ends a session. A session that is not alive is ended already.
func (s *Service) Logout(ctx context.Context, request wire.LogoutRequest) error {
	claims, err := s.Issuer.VerifyRefresh(request.RefreshToken)
	if err != nil {
		return nil
	}
	u := s.Directory.View().ByID(claims.Subject)
	if u == nil || !review.Live(u, claims) {
		return nil
	}
	if err := s.Writer.RevokeSession(ctx, u.Name, claims.Session, s.Clock.Now(), claims.Expiry.Time()); err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "logged out", "user", u.Name, "session", claims.Session)
	s.await(ctx, func(v *directory.View) bool {
		u := v.ByID(claims.Subject)
		return u == nil || !review.Live(u, claims)
	})
	return nil
}

// await gives this replica time to see a change. The others see it too, about as soon.
func (s *Service) await(ctx context.Context, seen func(*directory.View) bool) {
	ctx, cancel := context.WithTimeout(ctx, visible)
	defer cancel()
	if err := s.Directory.Await(ctx, seen); err != nil {
		s.Logger.WarnContext(ctx, "a change is slow to be seen", "error", err)
	}
}

var audienceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,251}[a-z0-9])?$`)

// checkAudience refuses what no API server is called; refresh tokens have such an audience.
func checkAudience(audience string) error {
	if audience != "" && !audienceForm.MatchString(audience) {
		return failure(http.StatusUnprocessableEntity, "audience: this is no name of an API server")
	}
	return nil
}
