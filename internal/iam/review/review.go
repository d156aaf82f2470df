// Package review judges tokens: is it good, whose is it, and what are they to Kubernetes. The mapping of users to names
// and groups is here and nowhere else.
//
// A token is judged by what the directory says now. What a session token says of roles was true when it was signed, and
// serves those who verify offline; here a user who lost a role, was disabled or logged out is known within moments.
package review

import (
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/token"
)

// ErrorText is all that an API server is told of a token that is not accepted.
const ErrorText = "Invalid or expired token"

// Scope is what the API server that asks is responsible for.
type Scope struct {
	// Audience is the API server's name: tokens made for another one are refused.
	Audience string
	// Organization and Project are whose API server it is; everybody's where they are empty. It learns of nobody else,
	// except that platform administrators are let in.
	Organization, Project string
}

// Directory is where users are looked up.
type Directory interface{ View() *directory.View }

// Verifier reads session tokens, as token.Issuer does.
type Verifier interface {
	Verify(raw string) (*token.Claims, error)
}

// Uses hears of each use of an access token.
type Uses interface{ Used(*directory.Token) }

// Reviewer judges tokens.
type Reviewer struct {
	directory Directory
	tokens    Verifier
	uses      Uses
	clock     clock.PassiveClock
}

// New returns a Reviewer.
func New(d Directory, tokens Verifier, uses Uses, clk clock.PassiveClock) *Reviewer {
	return &Reviewer{directory: d, tokens: tokens, uses: uses, clock: clk}
}

// Authenticate returns who the token speaks for. The error is always token.ErrInvalid: why a token is not accepted is
// nobody's business.
func (r *Reviewer) Authenticate(raw string, scope Scope) (*Identity, error) {
	view := r.directory.View()
	judge := r.session
	if token.IsAccess(raw) {
		judge = r.access
	}
	id, ok := judge(view, raw, scope)
	if !ok || id.User.Disabled {
		return nil, token.ErrInvalid
	}
	if id, ok = scope.narrow(id); !ok {
		return nil, token.ErrInvalid
	}
	return id, nil
}

func (r *Reviewer) access(view *directory.View, raw string, _ Scope) (*Identity, bool) {
	t := view.Token(token.HashAccess(raw))
	if t == nil || t.Revoked || !t.ExpiresAt.IsZero() && !r.clock.Now().Before(t.ExpiresAt) {
		return nil, false
	}
	u := view.ByName(t.User)
	if u == nil || t.CreatedAt.Before(u.ValidAfter) {
		return nil, false
	}
	id, ok := Resolve(view, u, t.Project)
	if !ok {
		return nil, false
	}
	id.AccessToken, id.ExpiresAt = t.Name, t.ExpiresAt
	r.uses.Used(t)
	return id, true
}

func (r *Reviewer) session(view *directory.View, raw string, scope Scope) (*Identity, bool) {
	claims, err := r.tokens.Verify(raw)
	if err != nil {
		return nil, false
	}
	if audience := claims.Audience[0]; audience != token.Audience && audience != scope.Audience {
		return nil, false
	}
	u := view.ByID(claims.Subject)
	if u == nil || !Live(u, claims) {
		return nil, false
	}
	id, ok := Resolve(view, u, claims.Confinement())
	if !ok {
		return nil, false
	}
	id.Session, id.ExpiresAt = claims.Session, claims.Expiry.Time()
	return id, true
}

// Live says whether the session that a token comes from was neither logged out of nor ended.
func Live(u *directory.User, claims *token.Claims) bool {
	return !claims.IssuedAt.Time().Before(u.ValidAfter.Truncate(time.Second)) && !u.SessionRevoked(claims.Session)
}

// narrow leaves of an identity what concerns the scope, and nothing of those who have no business there.
func (s Scope) narrow(id *Identity) (*Identity, bool) {
	if s.Organization == "" || id.PlatformAdmin {
		return id, true
	}
	if id.User.Organization != s.Organization {
		return nil, false
	}
	if s.Project == "" {
		return id, true
	}
	i := slices.IndexFunc(id.Memberships, func(m v1alpha1.Membership) bool { return m.Project == s.Project })
	if i < 0 {
		return nil, false
	}
	narrowed := *id
	narrowed.Memberships = id.Memberships[i : i+1]
	return &narrowed, true
}

// Review judges a token for an API server.
func (r *Reviewer) Review(raw string, scope Scope) authenticationv1.TokenReviewStatus {
	id, err := r.Authenticate(raw, scope)
	if err != nil {
		return authenticationv1.TokenReviewStatus{Error: ErrorText}
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: id.UserInfo()}
}
