package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func project(ctx context.Context, q *question, object, _ *v1alpha1.Project) error {
	switch {
	case q.deletes():
		return q.deleteProject(ctx, object)
	case !q.creates():
		return nil // the organization cannot change
	}
	wrong, err := q.parent(ctx, field.NewPath("spec", "organization"), "", object.Spec.Organization, &v1alpha1.Organization{}, createOrganization(object.Spec.Organization))
	return orInvalid(err, "Project", object, wrong)
}

func createOrganization(name string) string {
	return fmt.Sprintf("create it with `cloud org create %s`, or name another one", name)
}

func user(ctx context.Context, q *question, object, old *v1alpha1.User) error {
	var wrong field.ErrorList
	if q.creates() {
		missing, err := q.parent(ctx, field.NewPath("spec", "organization"), "", object.Spec.Organization, &v1alpha1.Organization{}, createOrganization(object.Spec.Organization))
		if err != nil {
			return err
		}
		wrong = add(wrong, missing)
	}
	for i, membership := range object.Spec.Projects {
		if old != nil && slices.ContainsFunc(old.Spec.Projects, func(m v1alpha1.Membership) bool { return m.Project == membership.Project }) {
			continue // it was there before; what became of the project since is no reason to refuse something else
		}
		missing, err := q.membership(ctx, field.NewPath("spec", "projects").Index(i).Child("project"), object.Spec.Organization, membership.Project)
		if err != nil {
			return err
		}
		wrong = add(wrong, missing)
	}
	if object.Spec.Email != "" && (old == nil || !strings.EqualFold(old.Spec.Email, object.Spec.Email)) {
		taken, err := q.emailTaken(ctx, object)
		if err != nil {
			return err
		}
		wrong = add(wrong, taken)
	}
	return invalid("User", object, wrong)
}

// membership looks at a project that a user of an organization shall work in. Another organization's is as good as none,
// and is told like that: who asks may not know of it.
func (q *question) membership(ctx context.Context, at *field.Path, organization, name string) (*field.Error, error) {
	project := &v1alpha1.Project{}
	found, err := q.find(ctx, "", name, project)
	switch {
	case err != nil:
		return nil, err
	case !found || project.Spec.Organization != organization:
		return field.Invalid(at, name, fmt.Sprintf("organization %s has no project of this name; create it with `cloud project create %s`, or name another one", organization, name)), nil
	case !project.DeletionTimestamp.IsZero():
		return field.Invalid(at, name, "it is being deleted; name another one"), nil
	}
	return nil, nil
}

// emailTaken keeps the name to log in with unique.
func (q *question) emailTaken(ctx context.Context, object *v1alpha1.User) (*field.Error, error) {
	var users v1alpha1.UserList
	if err := q.world.List(ctx, &users, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	for i := range users.Items {
		other := &users.Items[i]
		if other.Name != object.Name && strings.EqualFold(other.Spec.Email, object.Spec.Email) {
			return field.Invalid(field.NewPath("spec", "email"), object.Spec.Email, "another user logs in with this address; use another one"), nil
		}
	}
	return nil, nil
}

func accessToken(ctx context.Context, q *question, object, _ *v1alpha1.AccessToken) error {
	spec, at := &object.Spec, field.NewPath("spec")
	if !q.creates() {
		return nil // what it is good for cannot change, and revoking has to be possible at any time
	}
	owner := &v1alpha1.User{}
	missing, err := q.parent(ctx, at.Child("user"), "", spec.User, owner, fmt.Sprintf("create the user with `cloud user create %s`, or name another one", spec.User))
	if err != nil || missing != nil {
		return orInvalid(err, "AccessToken", object, missing)
	}
	var wrong field.ErrorList
	if spec.Project != "" {
		beyond, err := q.beyond(ctx, at.Child("project"), owner, spec.Project)
		if err != nil {
			return err
		}
		wrong = add(wrong, beyond)
	}
	if spec.ExpiresAt != nil && !spec.ExpiresAt.After(q.now()) {
		wrong = append(wrong, field.Invalid(at.Child("expiresAt"), spec.ExpiresAt, "this time has passed; choose a later one"))
	}
	return invalid("AccessToken", object, wrong)
}

// beyond is wrong with a token for a project that its user may not enter.
func (q *question) beyond(ctx context.Context, at *field.Path, owner *v1alpha1.User, name string) (*field.Error, error) {
	if slices.ContainsFunc(owner.Spec.Projects, func(m v1alpha1.Membership) bool { return m.Project == name }) {
		return nil, nil
	}
	switch {
	case owner.Spec.PlatformAdmin:
		return q.parent(ctx, at, "", name, &v1alpha1.Project{}, "name one that exists")
	case owner.Spec.OrganizationAdmin:
		return q.membership(ctx, at, owner.Spec.Organization, name)
	}
	return field.Invalid(at, name, fmt.Sprintf("user %s does not work in it; add it to the user's spec.projects first", owner.Name)), nil
}
