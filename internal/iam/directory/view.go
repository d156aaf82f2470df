package directory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Objects are what a View is made of.
type Objects struct {
	Users         []*v1alpha1.User
	AccessTokens  []*v1alpha1.AccessToken
	Organizations []*v1alpha1.Organization
	Projects      []*v1alpha1.Project
	Passwords     map[PasswordKey]Password
}

// PasswordKey names a key of a Secret.
type PasswordKey struct{ Secret, Key string }

// Password is a hash, and the UID of the only user whose it may be; anybody's who names it, where that is empty.
type Password struct {
	Hash  string
	Owner types.UID
}

// View is all identities at a moment. It does not change, so it is read without locks.
type View struct {
	users    map[string]*User // by name
	byID     map[string]*User
	byEmail  map[string]*User // in lower case
	tokens   map[string]*Token
	projects map[string][]string // names by organization
	counts   map[string]int
}

// User is a user as far as tokens are concerned.
type User struct {
	Name string
	// ID is user-<uuid>, the user's for good.
	ID string
	// Username is what Kubernetes sees.
	Username     string
	Email        string
	Organization string
	// Memberships are those in projects that exist and belong to the user's organization.
	Memberships []v1alpha1.Membership

	ServiceAccount    bool
	OrganizationAdmin bool
	PlatformAdmin     bool
	// Disabled is set where the user, or the organization, is.
	Disabled bool
	// ValidAfter is the earliest time of issue of a token that is accepted. It is never before the user was made: a
	// token of an earlier user of the same name is not this one's.
	ValidAfter time.Time
	// PasswordHash is empty where there is no password.
	PasswordHash string
	// PasswordSecret is where it is kept.
	PasswordSecret PasswordKey

	revoked map[string]struct{} // sessions
}

// SessionRevoked says whether the user has logged out of the session.
func (u *User) SessionRevoked(id string) bool {
	_, revoked := u.revoked[id]
	return revoked
}

// Token is an access token that was not revoked.
type Token struct {
	Name        string
	User        string
	Project     string // to which it is confined, or ""
	Description string
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero for never
	LastUsed    time.Time
	Revoked     bool
}

// NewView arranges objects for looking up.
func NewView(objects Objects) *View {
	v := &View{
		users:    make(map[string]*User, len(objects.Users)),
		byID:     make(map[string]*User, len(objects.Users)),
		byEmail:  make(map[string]*User, len(objects.Users)),
		tokens:   make(map[string]*Token, len(objects.AccessTokens)),
		projects: map[string][]string{},
		counts: map[string]int{
			"users": len(objects.Users), "accesstokens": len(objects.AccessTokens),
			"organizations": len(objects.Organizations), "projects": len(objects.Projects),
		},
	}
	organizations := make(map[string]bool, len(objects.Organizations))
	for _, organization := range objects.Organizations {
		organizations[organization.Name] = true
	}
	owners := make(map[string]string, len(objects.Projects))
	for _, project := range objects.Projects {
		owners[project.Name] = project.Spec.Organization
		v.projects[project.Spec.Organization] = append(v.projects[project.Spec.Organization], project.Name)
	}
	for _, names := range v.projects {
		slices.Sort(names)
	}
	// The oldest user of an e-mail address owns it.
	users := slices.Clone(objects.Users)
	slices.SortFunc(users, func(a, b *v1alpha1.User) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, object := range users {
		user := newUser(object, owners)
		user.Disabled = user.Disabled || !organizations[user.Organization]
		if password := objects.Passwords[user.PasswordSecret]; password.Owner == "" || password.Owner == object.UID {
			user.PasswordHash = password.Hash
		}
		v.users[user.Name] = user
		v.byID[user.ID] = user
		v.name(user)
	}
	for _, object := range objects.AccessTokens {
		v.tokens[object.Spec.SHA256] = newToken(object)
	}
	return v
}

// IDPrefix is followed by a User's UID in its ID.
const IDPrefix = "user-"

// DefaultPasswordKey is the key of a Secret that a password's hash is under.
const DefaultPasswordKey = "hash"

// PasswordSecretName is the Secret of a user's password where the user names no other. It follows from the UID: a later
// user of the same name does not inherit it.
func PasswordSecretName(user *v1alpha1.User) string { return "iam-password-" + string(user.UID) }

func newUser(object *v1alpha1.User, owners map[string]string) *User {
	u := &User{
		Name:              object.Name,
		ID:                IDPrefix + string(object.UID),
		Email:             object.Spec.Email,
		Organization:      object.Spec.Organization,
		ServiceAccount:    object.Spec.Kind == v1alpha1.UserServiceAccount,
		OrganizationAdmin: object.Spec.OrganizationAdmin,
		PlatformAdmin:     object.Spec.PlatformAdmin,
		Disabled:          object.Spec.Disabled || !object.DeletionTimestamp.IsZero(),
		PasswordSecret:    PasswordKey{Secret: PasswordSecretName(object), Key: DefaultPasswordKey},
	}
	for _, membership := range object.Spec.Projects {
		if owner, exists := owners[membership.Project]; exists && owner == u.Organization {
			u.Memberships = append(u.Memberships, membership)
		}
	}
	slices.SortFunc(u.Memberships, func(a, b v1alpha1.Membership) int { return strings.Compare(a.Project, b.Project) })
	if reference := object.Spec.PasswordSecret; reference != nil {
		u.PasswordSecret.Secret = reference.Name
		u.PasswordSecret.Key = cmp.Or(reference.Key, DefaultPasswordKey)
	}
	u.ValidAfter = object.CreationTimestamp.Time
	if after := object.Status.TokensValidAfter; after != nil && after.After(u.ValidAfter) {
		u.ValidAfter = after.Time
	}
	if revoked := object.Status.RevokedSessions; len(revoked) > 0 {
		u.revoked = make(map[string]struct{}, len(revoked))
		for _, session := range revoked {
			u.revoked[session.ID] = struct{}{}
		}
	}
	return u
}

// name gives the user the name that Kubernetes sees: the e-mail address of a person who owns it, sa-<name>@<project> of
// a service account, and user-<uuid> otherwise.
func (v *View) name(u *User) {
	if u.ServiceAccount {
		// Without its project the account has nothing to do anywhere.
		u.Username = u.ID
		if len(u.Memberships) == 1 {
			u.Username = "sa-" + u.Name + "@" + u.Memberships[0].Project
		}
		return
	}
	email := strings.ToLower(u.Email)
	_, taken := v.byEmail[email]
	if u.Email != "" && !taken {
		v.byEmail[email] = u
	}
	if u.Email != "" && !taken && !mistakable(email) {
		u.Username = u.Email
	} else {
		u.Username = u.ID
	}
}

// mistakable is an address that looks like the name of somebody else: of a service account (sa-<name>@<project>, where
// no project has a dot in its name), or of Kubernetes itself (system:…).
func mistakable(email string) bool {
	local, domain, _ := strings.Cut(email, "@")
	return strings.HasPrefix(local, "sa-") && !strings.Contains(domain, ".") || strings.Contains(email, ":")
}

func newToken(object *v1alpha1.AccessToken) *Token {
	t := &Token{
		Name: object.Name, User: object.Spec.User, Project: object.Spec.Project, Description: object.Spec.Description,
		CreatedAt: object.CreationTimestamp.Time,
		Revoked:   object.Spec.Revoked || !object.DeletionTimestamp.IsZero(),
	}
	if object.Spec.ExpiresAt != nil {
		t.ExpiresAt = object.Spec.ExpiresAt.Time
	}
	if object.Status.LastUsed != nil {
		t.LastUsed = object.Status.LastUsed.Time
	}
	return t
}

// ByName returns the user of this name, or nil.
func (v *View) ByName(name string) *User { return v.users[name] }

// ByID returns the user of this ID, or nil.
func (v *View) ByID(id string) *User { return v.byID[id] }

// ByEmail returns the person who logs in with this address, or nil.
func (v *View) ByEmail(email string) *User { return v.byEmail[strings.ToLower(email)] }

// Token returns the access token with this hash, or nil. It may be revoked or expired.
func (v *View) Token(hash string) *Token { return v.tokens[hash] }

// TokenByName returns the access token of this name, or nil. It looks at all tokens, like TokensOf.
func (v *View) TokenByName(name string) *Token {
	for _, t := range v.tokens {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// TokensOf returns the access tokens of a user, by name. It looks at all tokens: it is for people, not for every
// request.
func (v *View) TokensOf(user string) []*Token {
	var tokens []*Token
	for _, t := range v.tokens {
		if t.User == user {
			tokens = append(tokens, t)
		}
	}
	slices.SortFunc(tokens, func(a, b *Token) int { return strings.Compare(a.Name, b.Name) })
	return tokens
}

// Projects returns the names of an organization's projects, in order. The caller does not change them.
func (v *View) Projects(organization string) []string { return v.projects[organization] }

// Counts are how many objects of each kind there are.
func (v *View) Counts() map[string]int { return v.counts }
