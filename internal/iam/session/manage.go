package session

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

const (
	// maxTokens is how many access tokens a user may have that are good.
	maxTokens = 100
	// maxDescription is what the API allows.
	maxDescription = 200
)

// ChangePassword sets a password, and ends all sessions and access tokens of its user: whoever knew the old one is out.
func (s *Service) ChangePassword(ctx context.Context, caller *review.Identity, request wire.PasswordRequest, address string) error {
	u, err := s.responsible(caller, request.User)
	if err != nil {
		return err
	}
	if u.ServiceAccount {
		return failure(http.StatusUnprocessableEntity, "a service account has no password: make an access token for it")
	}
	if u.ID == caller.User.ID {
		if err := s.confirm(ctx, u, request.Current, address); err != nil {
			return err
		}
	}
	if err := s.savePassword(ctx, u, request.New); err != nil {
		return err
	}
	after := store.Ceil(s.Clock.Now())
	if err := s.Writer.EndTokens(ctx, u.Name, after); err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "password changed", "user", u.Name, "by", caller.User.Name)
	s.await(ctx, func(v *directory.View) bool {
		now := v.ByID(u.ID)
		return now == nil || now.PasswordHash != u.PasswordHash && !now.ValidAfter.Before(after)
	})
	return nil
}

// confirm asks for the present password: a token alone, perhaps stolen, changes none.
func (s *Service) confirm(ctx context.Context, u *directory.User, current, address string) error {
	account := strings.ToLower(u.Email)
	if err := s.try(account, address); err != nil {
		return err
	}
	ok, err := s.verify(ctx, u, current)
	if err != nil {
		return err
	}
	if !ok {
		s.Logger.WarnContext(ctx, "change of password refused", "user", u.Name, "address", address)
		return failure(http.StatusForbidden, "the current password is wrong")
	}
	s.Accounts.Forget(account)
	s.Addresses.Forgive(address)
	return nil
}

func (s *Service) savePassword(ctx context.Context, u *directory.User, given string) error {
	hash, err := s.Hasher.Hash(ctx, given)
	if errors.Is(err, password.ErrTooShort) || errors.Is(err, password.ErrTooLong) {
		return failure(http.StatusUnprocessableEntity, err.Error())
	}
	if err != nil {
		return err
	}
	return s.Writer.SavePassword(ctx, u.Name, u.PasswordSecret.Secret, u.PasswordSecret.Key, hash)
}

// responsible returns the user of this name, or the caller where it is empty, if the caller may act for them: oneself; a
// platform administrator for all; an organization's administrator for its users who are no platform administrators; a
// project's administrator for its service accounts that are nothing more than that. Others do not learn whether there
// is such a user.
func (s *Service) responsible(caller *review.Identity, name string) (*directory.User, error) {
	if name == "" || name == caller.User.Name {
		return caller.User, nil
	}
	u := s.Directory.View().ByName(name)
	allowed := u != nil
	switch {
	case u == nil, caller.PlatformAdmin:
	case u.PlatformAdmin || u.Organization != caller.User.Organization:
		allowed = false
	case caller.OrganizationAdmin:
	default:
		allowed = u.ServiceAccount && !u.OrganizationAdmin && administers(caller, u)
	}
	if !allowed {
		return nil, failure(http.StatusForbidden, "you are not responsible for a user "+name)
	}
	return u, nil
}

// administers says whether all that the user belongs to is the caller's to administer.
func administers(caller *review.Identity, u *directory.User) bool {
	return len(u.Memberships) > 0 && !slices.ContainsFunc(u.Memberships, func(m v1alpha1.Membership) bool {
		return !slices.Contains(caller.Memberships, v1alpha1.Membership{Project: m.Project, Role: v1alpha1.RoleAdmin})
	})
}

// CreateToken makes an access token.
func (s *Service) CreateToken(ctx context.Context, caller *review.Identity, request wire.TokenRequest) (*wire.Token, error) {
	u, err := s.responsible(caller, request.User)
	if err != nil {
		return nil, err
	}
	if err := s.checkToken(caller, u, &request); err != nil {
		return nil, err
	}
	if err := s.wait(ctx, u.ValidAfter); err != nil { // the API knows full seconds only
		return nil, err
	}
	secret, hash, err := token.NewAccess()
	if err != nil {
		return nil, err
	}
	object := &v1alpha1.AccessToken{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AccessToken"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: u.Name + "-",
			Annotations:  map[string]string{v1alpha1.AnnotationCreatedBy: caller.User.Username},
			OwnerReferences: []metav1.OwnerReference{{ // it goes when the user does
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "User", Name: u.Name, UID: types.UID(strings.TrimPrefix(u.ID, directory.IDPrefix)),
			}},
		},
		Spec: v1alpha1.AccessTokenSpec{User: u.Name, SHA256: hash, Description: request.Description, Project: request.Project},
	}
	if request.ExpiresAt != nil {
		expires := metav1.NewTime(*request.ExpiresAt)
		object.Spec.ExpiresAt = &expires
	}
	made, err := s.Writer.CreateAccessToken(ctx, object)
	if err != nil {
		return nil, err
	}
	s.Logger.InfoContext(ctx, "access token made", "token", made.Name, "user", u.Name, "by", caller.User.Name)
	s.await(ctx, func(v *directory.View) bool { return v.Token(hash) != nil })
	return &wire.Token{
		Name: made.Name, Token: secret, User: u.Name, Description: request.Description, Project: request.Project,
		CreatedAt: made.CreationTimestamp.UTC(), ExpiresAt: request.ExpiresAt,
	}, nil
}

// checkToken refuses a token that would be good for more than the caller is, or for nothing.
func (s *Service) checkToken(caller *review.Identity, u *directory.User, request *wire.TokenRequest) error {
	view := s.Directory.View()
	if caller.AccessToken != "" {
		// A stolen one could be made to last for ever.
		return failure(http.StatusForbidden, "an access token makes no others: log in with a password")
	}
	if caller.Project != "" && request.Project == "" {
		request.Project = caller.Project
	}
	if caller.Project != "" && request.Project != caller.Project {
		return failure(http.StatusForbidden, "your session is confined to the project "+caller.Project)
	}
	if _, ok := review.Resolve(view, u, request.Project); !ok {
		return failure(http.StatusUnprocessableEntity, "project: the user does not belong to "+request.Project)
	}
	if request.ExpiresAt != nil && !request.ExpiresAt.After(s.Clock.Now()) {
		return failure(http.StatusUnprocessableEntity, "expiresAt: it is in the past")
	}
	if utf8.RuneCountInString(request.Description) > maxDescription {
		return failure(http.StatusUnprocessableEntity, "description: it is too long")
	}
	good := slices.DeleteFunc(view.TokensOf(u.Name), func(t *directory.Token) bool {
		return t.Revoked || !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(s.Clock.Now())
	})
	if len(good) >= maxTokens {
		return failure(http.StatusUnprocessableEntity, "the user has too many access tokens: revoke some first")
	}
	return nil
}

func (s *Service) wait(ctx context.Context, until time.Time) error {
	timer := s.Clock.NewTimer(max(0, until.Sub(s.Clock.Now())))
	defer timer.Stop()
	if !s.Clock.Now().Before(until) {
		return nil
	}
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tokens lists the access tokens of a user.
func (s *Service) Tokens(caller *review.Identity, user string) (*wire.TokenList, error) {
	u, err := s.responsible(caller, user)
	if err != nil {
		return nil, err
	}
	list := &wire.TokenList{Items: []wire.Token{}}
	for _, t := range s.Directory.View().TokensOf(u.Name) {
		list.Items = append(list.Items, wire.Token{
			Name: t.Name, User: t.User, Description: t.Description, Project: t.Project, Revoked: t.Revoked,
			CreatedAt: t.CreatedAt.UTC(), ExpiresAt: optional(t.ExpiresAt), LastUsed: optional(t.LastUsed),
		})
	}
	return list, nil
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// RevokeToken refuses an access token from now on.
func (s *Service) RevokeToken(ctx context.Context, caller *review.Identity, name string) error {
	missing := failure(http.StatusNotFound, "you have no access token "+name)
	t := s.Directory.View().TokenByName(name)
	if t == nil {
		return missing
	}
	if _, err := s.responsible(caller, t.User); err != nil {
		return missing
	}
	if caller.Project != "" && t.Project != caller.Project {
		return failure(http.StatusForbidden, "your session is confined to the project "+caller.Project)
	}
	if err := s.Writer.RevokeAccessToken(ctx, name); err != nil {
		return err
	}
	s.Logger.InfoContext(ctx, "access token revoked", "token", name, "user", t.User, "by", caller.User.Name)
	s.await(ctx, func(v *directory.View) bool { t := v.TokenByName(name); return t == nil || t.Revoked })
	return nil
}

// Whoami tells callers who they are.
func (s *Service) Whoami(caller *review.Identity) *wire.Identity {
	kind := v1alpha1.UserPerson
	if caller.User.ServiceAccount {
		kind = v1alpha1.UserServiceAccount
	}
	who := &wire.Identity{
		Name: caller.User.Name, ID: caller.User.ID, Kind: string(kind), Email: caller.User.Email,
		Username: caller.User.Username, Groups: caller.Groups(), Organization: caller.User.Organization,
		OrganizationAdmin: caller.OrganizationAdmin, PlatformAdmin: caller.PlatformAdmin, ExpiresAt: optional(caller.ExpiresAt),
	}
	for _, m := range caller.Memberships {
		who.Projects = append(who.Projects, wire.Membership{Project: m.Project, Role: string(m.Role)})
	}
	return who
}
