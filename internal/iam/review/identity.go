package review

import (
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
)

// Groups that Kubernetes sees. Roles are bound to them in package rbac.
const (
	// GroupOrgAdmin is every organization's administrator. It says nothing of which one: bind nothing to it that
	// reaches into projects.
	GroupOrgAdmin = "k8s:org-admin"
	// GroupPlatformAdmin is who runs the platform.
	GroupPlatformAdmin = "system:plasmacloud-admins"

	groupAuthenticated   = "system:authenticated"
	groupServiceAccounts = "system:serviceaccounts"
)

// OrganizationGroup is everybody in an organization.
func OrganizationGroup(organization string) string { return "org:" + organization }

// OrganizationAdminGroup is the administrators of one organization.
func OrganizationAdminGroup(organization string) string {
	return OrganizationGroup(organization) + ":admin"
}

// ProjectGroup is who may change things in a project.
func ProjectGroup(project string) string { return "project:" + project }

// ProjectViewerGroup is who may only look.
func ProjectViewerGroup(project string) string { return ProjectGroup(project) + ":viewer" }

// Roles as tokens name them.
const (
	RolePlatformAdmin = "platform_admin"
	RoleOrgAdmin      = "org_admin"
	RoleProjectAdmin  = "project_admin"
	RoleProjectMember = "project_member"
	RoleProjectViewer = "project_viewer"
)

// Keys of what Kubernetes calls extra.
const (
	extraOrganization = "org_id"
	extraProject      = "project_id"
	extraRoles        = "roles"
)

// Identity is who a token speaks for, and what for.
type Identity struct {
	User *directory.User
	// Project is the one that the token is confined to, or "".
	Project string
	// Memberships are the projects that the token is good in; of an organization's administrator, all.
	Memberships []v1alpha1.Membership
	// OrganizationAdmin and PlatformAdmin are false for a token that is confined to a project.
	OrganizationAdmin, PlatformAdmin bool
	// Session is the login that the token comes from; AccessToken is its name if it is one.
	Session     string
	AccessToken string
	// ExpiresAt is when the token ends; zero for never.
	ExpiresAt time.Time
}

// Resolve says what a user is, confined to a project unless that is empty. It fails if the user does not belong there.
func Resolve(view *directory.View, u *directory.User, project string) (*Identity, bool) {
	memberships := u.Memberships
	if u.OrganizationAdmin {
		names := view.Projects(u.Organization)
		memberships = make([]v1alpha1.Membership, len(names))
		for i, name := range names {
			memberships[i] = v1alpha1.Membership{Project: name, Role: v1alpha1.RoleAdmin}
		}
	}
	id := &Identity{User: u, Memberships: memberships, OrganizationAdmin: u.OrganizationAdmin, PlatformAdmin: u.PlatformAdmin}
	if project == "" {
		return id, true
	}
	return id.confined(project)
}

// confined is the identity in one project and nowhere else.
func (id *Identity) confined(project string) (*Identity, bool) {
	i := slices.IndexFunc(id.Memberships, func(m v1alpha1.Membership) bool { return m.Project == project })
	if i < 0 {
		return nil, false
	}
	confined := *id
	confined.Project = project
	confined.Memberships = id.Memberships[i : i+1]
	confined.OrganizationAdmin, confined.PlatformAdmin = false, false
	return &confined, true
}

// Groups are those that Kubernetes sees.
func (id *Identity) Groups() []string {
	groups := make([]string, 0, len(id.Memberships)+5)
	groups = append(groups, OrganizationGroup(id.User.Organization))
	for _, m := range id.Memberships {
		if m.Role == v1alpha1.RoleViewer {
			groups = append(groups, ProjectViewerGroup(m.Project))
		} else {
			groups = append(groups, ProjectGroup(m.Project))
		}
	}
	if id.OrganizationAdmin {
		groups = append(groups, GroupOrgAdmin, OrganizationAdminGroup(id.User.Organization))
	}
	if id.PlatformAdmin {
		groups = append(groups, GroupPlatformAdmin)
	}
	switch {
	case id.User.ServiceAccount:
		groups = append(groups, groupServiceAccounts)
	case !id.OrganizationAdmin:
		groups = append(groups, groupAuthenticated)
	}
	return groups
}

// Roles are what the user is, in words.
func (id *Identity) Roles() []string {
	roles := []string{}
	if id.PlatformAdmin {
		roles = append(roles, RolePlatformAdmin)
	}
	if id.OrganizationAdmin {
		return append(roles, RoleOrgAdmin)
	}
	for _, known := range []struct {
		role v1alpha1.Role
		name string
	}{
		{v1alpha1.RoleAdmin, RoleProjectAdmin}, {v1alpha1.RoleMember, RoleProjectMember}, {v1alpha1.RoleViewer, RoleProjectViewer},
	} {
		if slices.ContainsFunc(id.Memberships, func(m v1alpha1.Membership) bool { return m.Role == known.role }) {
			roles = append(roles, known.name)
		}
	}
	return roles
}

// ProjectIDs are the names of the projects that the token is good in.
func (id *Identity) ProjectIDs() []string {
	names := make([]string, len(id.Memberships))
	for i, m := range id.Memberships {
		names[i] = m.Project
	}
	return names
}

// UserInfo is the identity as a TokenReview tells it.
func (id *Identity) UserInfo() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{
		Username: id.User.Username,
		UID:      id.User.ID,
		Groups:   id.Groups(),
		Extra: map[string]authenticationv1.ExtraValue{
			extraOrganization: {id.User.Organization},
			extraProject:      id.ProjectIDs(),
			extraRoles:        id.Roles(),
		},
	}
}
