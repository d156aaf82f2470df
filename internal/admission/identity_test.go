package admission

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func person(name, organization, email string, projects ...string) *v1alpha1.User {
	u := named(&v1alpha1.User{Spec: v1alpha1.UserSpec{Kind: v1alpha1.UserPerson, Organization: organization, Email: email}}, "", name)
	for _, project := range projects {
		u.Spec.Projects = append(u.Spec.Projects, v1alpha1.Membership{Project: project, Role: v1alpha1.RoleMember})
	}
	return u
}

func TestProjectsAndUsers(t *testing.T) {
	everybody := append(world(), person("ada", "acme", "ada@example.com", "shop"), gone(org("old", nil)), gone(proj("closing", "acme", nil)))
	for name, test := range map[string]struct {
		object, old client.Object
		want        []string
	}{
		"project":                    {object: proj("blog", "acme", nil)},
		"project of no organization": {object: proj("blog", "nobody", nil), want: []string{`spec.organization: Invalid value: "nobody": there is none of this name; create it with ` + "`cloud org create nobody`"}},
		"project of an organization that is going": {object: proj("blog", "old", nil), want: []string{`spec.organization`, "it is being deleted"}},
		"project changed":                          {object: proj("shop", "acme", &v1alpha1.Quota{}), old: proj("shop", "acme", nil)},
		"user":                                     {object: person("eve", "acme", "eve@example.com", "shop")},
		"user of no organization":                  {object: person("eve", "nobody", "eve@example.com"), want: []string{"spec.organization", "cloud org create nobody"}},
		"user in no project":                       {object: person("eve", "acme", "eve@example.com", "shop", "blog"), want: []string{`spec.projects[1].project: Invalid value: "blog"`, "cloud project create blog"}},
		"user in a project that is going":          {object: person("eve", "acme", "eve@example.com", "closing"), want: []string{"spec.projects[0].project", "it is being deleted"}},
		"user in another one's project":            {object: person("eve", "acme", "eve@example.com", "lab"), want: []string{"spec.projects[0].project", "organization acme has no project of this name"}},
		"user with another one's address":          {object: person("eve", "acme", "Ada@Example.com"), want: []string{"spec.email", "another user logs in with this address; use another one"}},
		"user that keeps a project that went":      {object: person("ada", "acme", "ada@example.com", "gone", "shop"), old: person("ada", "acme", "ada@example.com", "gone")},
		"user that takes another address":          {object: person("ada", "acme", "ada@example.org", "shop"), old: person("ada", "acme", "ada@example.com", "shop")},
	} {
		t.Run(name, func(t *testing.T) {
			request := creating(t, test.object)
			if test.old != nil {
				request = ask(t, admissionv1.Update, test.object, test.old)
			}
			check(t, validator(t, everybody...).Handle(t.Context(), request), test.want...)
		})
	}
}

func TestAccessTokens(t *testing.T) {
	token := func(user, project string, expires *metav1.Time) *v1alpha1.AccessToken {
		return named(&v1alpha1.AccessToken{Spec: v1alpha1.AccessTokenSpec{User: user, Project: project, ExpiresAt: expires}}, "", "ci")
	}
	at := func(d time.Duration) *metav1.Time { moment := metav1.NewTime(noon.Add(d)); return &moment }
	boss, root := person("boss", "acme", "boss@example.com"), person("root", "acme", "root@example.com")
	boss.Spec.OrganizationAdmin, root.Spec.PlatformAdmin = true, true
	everybody := append(world(), person("ada", "acme", "ada@example.com", "shop"), boss, root)
	for name, test := range map[string]struct {
		object *v1alpha1.AccessToken
		want   []string
	}{
		"for all of a user's projects":         {object: token("ada", "", nil)},
		"for a project of the user's":          {object: token("ada", "shop", at(time.Hour))},
		"for nobody":                           {object: token("eve", "", nil), want: []string{`spec.user: Invalid value: "eve"`, "cloud user create eve"}},
		"for a project of others":              {object: token("ada", "lab", nil), want: []string{"spec.project", "user ada does not work in it; add it to the user's spec.projects first"}},
		"for a project of the organization":    {object: token("boss", "shop", nil)},
		"for another organization's project":   {object: token("boss", "lab", nil), want: []string{"spec.project", "organization acme has no project of this name"}},
		"for any project, of a platform admin": {object: token("root", "lab", nil)},
		"for a project that is not there":      {object: token("root", "nowhere", nil), want: []string{"spec.project", "there is none of this name"}},
		"that has expired":                     {object: token("ada", "", at(-time.Second)), want: []string{"spec.expiresAt", "this time has passed; choose a later one"}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, validator(t, everybody...).Handle(t.Context(), creating(t, test.object)), test.want...)
		})
	}
	revoked := token("nobody", "", at(-time.Second))
	revoked.Spec.Revoked = true
	check(t, validator(t).Handle(t.Context(), ask(t, admissionv1.Update, revoked, token("nobody", "", at(-time.Second)))))
}
