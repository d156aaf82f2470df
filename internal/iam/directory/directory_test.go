package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func organization(name string) *v1alpha1.Organization {
	return &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func project(name, organization string) *v1alpha1.Project {
	return &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProjectSpec{Organization: organization}}
}

func person(name, organization, email string, projects ...string) *v1alpha1.User {
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(start)},
		Spec:       v1alpha1.UserSpec{Kind: v1alpha1.UserPerson, Organization: organization, Email: email},
	}
	for _, p := range projects {
		u.Spec.Projects = append(u.Spec.Projects, v1alpha1.Membership{Project: p, Role: v1alpha1.RoleMember})
	}
	return u
}

func world(users ...*v1alpha1.User) Objects {
	return Objects{
		Users:         users,
		Organizations: []*v1alpha1.Organization{organization("a"), organization("b")},
		Projects:      []*v1alpha1.Project{project("a2", "a"), project("a1", "a"), project("b1", "b")},
	}
}

func TestUsersAreFoundByNameIDAndEmail(t *testing.T) {
	v := NewView(world(person("ann", "a", "Ann@Example.com", "a1")))
	ann := v.ByName("ann")
	if ann == nil || v.ByID("user-uid-ann") != ann || v.ByEmail("ann@example.COM") != ann {
		t.Fatal("ann is not found everywhere")
	}
	if v.ByName("bob") != nil || v.ByID("uid-ann") != nil || v.ByEmail("") != nil {
		t.Error("somebody was found who is not there")
	}
	if ann.Username != "Ann@Example.com" || ann.Disabled {
		t.Errorf("%+v", ann)
	}
	if !slices.Equal(v.Projects("a"), []string{"a1", "a2"}) {
		t.Errorf("projects of a are %v", v.Projects("a"))
	}
}

func TestMembershipsOutsideOfTheOrganizationDoNotCount(t *testing.T) {
	v := NewView(world(person("ann", "a", "ann@example.com", "b1", "nowhere", "a1", "a1:viewer")))
	if got := v.ByName("ann").Memberships; len(got) != 1 || got[0].Project != "a1" {
		t.Errorf("memberships are %v", got)
	}
}

func TestServiceAccountsAreNamedAfterTheirProject(t *testing.T) {
	account := person("ci", "a", "", "a1")
	account.Spec.Kind = v1alpha1.UserServiceAccount
	stray := person("stray", "a", "", "b1")
	stray.Spec.Kind = v1alpha1.UserServiceAccount
	v := NewView(world(account, stray))
	if got := v.ByName("ci").Username; got != "sa-ci@a1" {
		t.Errorf("username is %s", got)
	}
	if got := v.ByName("stray").Username; got != "user-uid-stray" {
		t.Errorf("the account of a foreign project is %s", got)
	}
}

func TestNobodyTakesTheNameOfAnother(t *testing.T) {
	later := person("zoe", "b", "ANN@example.com")
	later.CreationTimestamp = metav1.NewTime(start.Add(time.Second))
	v := NewView(world(
		later, person("ann", "a", "ann@example.com"),
		person("sly", "a", "sa-ci@a1"), person("sam", "a", "sa-m@example.com"), person("sys", "a", "system:admin@x"), person("none", "a", ""),
	))
	if v.ByEmail("ann@example.com").Name != "ann" {
		t.Error("the later user owns the address")
	}
	for name, want := range map[string]string{
		"ann": "ann@example.com", "zoe": "user-uid-zoe", "sly": "user-uid-sly", "sam": "sa-m@example.com", "sys": "user-uid-sys", "none": "user-uid-none",
	} {
		if got := v.ByName(name).Username; got != want {
			t.Errorf("%s is called %s", name, got)
		}
	}
}

func TestWhoIsDisabled(t *testing.T) {
	disabled := person("ann", "a", "ann@example.com")
	disabled.Spec.Disabled = true
	leaving := person("bob", "a", "bob@example.com")
	now := metav1.NewTime(start)
	leaving.DeletionTimestamp = &now
	v := NewView(world(disabled, leaving, person("cyd", "gone", "cyd@example.com")))
	for _, name := range []string{"ann", "bob", "cyd"} {
		if !v.ByName(name).Disabled {
			t.Errorf("%s is not disabled", name)
		}
	}
}

func TestPasswordsBelongToTheirUser(t *testing.T) {
	custom := person("bob", "a", "bob@example.com")
	custom.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: "bobs", Key: "pw"}
	thief := person("eve", "b", "eve@example.com")
	thief.Spec.PasswordSecret = &v1alpha1.SecretReference{Name: "iam-password-uid-ann"}
	objects := world(person("ann", "a", "ann@example.com"), custom, thief)
	objects.Passwords = map[PasswordKey]Password{
		{"iam-password-uid-ann", "hash"}: {Hash: "h1", Owner: "uid-ann"},
		{"bobs", "pw"}:                   {Hash: "h2"},
	}
	v := NewView(objects)
	for name, want := range map[string]string{"ann": "h1", "bob": "h2", "eve": ""} {
		if got := v.ByName(name).PasswordHash; got != want {
			t.Errorf("%s has %q", name, got)
		}
	}
}

func TestTokensAreFoundByHash(t *testing.T) {
	expires := metav1.NewTime(start.Add(time.Hour))
	objects := world()
	objects.AccessTokens = []*v1alpha1.AccessToken{
		{ObjectMeta: metav1.ObjectMeta{Name: "t2"}, Spec: v1alpha1.AccessTokenSpec{User: "ann", SHA256: "h2", Revoked: true}},
		{ObjectMeta: metav1.ObjectMeta{Name: "t1"}, Spec: v1alpha1.AccessTokenSpec{User: "ann", SHA256: "h1", Project: "a1", ExpiresAt: &expires}},
		{ObjectMeta: metav1.ObjectMeta{Name: "t3"}, Spec: v1alpha1.AccessTokenSpec{User: "bob", SHA256: "h3"}},
	}
	v := NewView(objects)
	if token := v.Token("h1"); token == nil || token.Name != "t1" || token.Project != "a1" || !token.ExpiresAt.Equal(expires.Time) || token.Revoked {
		t.Errorf("%+v", token)
	}
	if !v.Token("h2").Revoked || v.Token("h9") != nil {
		t.Error("a token is not what it was said to be")
	}
	if tokens := v.TokensOf("ann"); len(tokens) != 2 || tokens[0].Name != "t1" {
		t.Errorf("%v", tokens)
	}
}

// fakeSource is a Source that tests change.
type fakeSource struct {
	mu       sync.Mutex
	objects  Objects
	complete bool
	changed  chan struct{}
}

func (s *fakeSource) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (s *fakeSource) Changed() <-chan struct{}      { return s.changed }
func (s *fakeSource) Objects() (Objects, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects, s.complete
}

func (s *fakeSource) set(objects Objects, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.complete = objects, complete
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func TestDirectoryFollowsItsSource(t *testing.T) {
	source := &fakeSource{changed: make(chan struct{}, 1)}
	d := New(source, clock.RealClock{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()

	source.set(world(person("ann", "a", "ann@example.com")), false)
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if err := d.Await(short, func(v *View) bool { return v.ByName("ann") != nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an incomplete list was published: %v", err)
	}
	if d.Ready() {
		t.Error("ready before everybody is known")
	}
	for i := range 20 {
		name := fmt.Sprintf("user%d", i)
		source.set(world(person(name, "a", name+"@example.com")), true)
		if err := d.Await(ctx, func(v *View) bool { return v.ByName(name) != nil }); err != nil {
			t.Fatal(err)
		}
	}
	if !d.Ready() || d.View().Counts()["users"] != 1 {
		t.Errorf("ready %v, %v", d.Ready(), d.View().Counts())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWhatMatters(t *testing.T) {
	user := func(change func(*v1alpha1.User)) *v1alpha1.User {
		u := person("ann", "a", "ann@example.com")
		u.Generation = 1
		change(u)
		return u
	}
	stamp := metav1.NewTime(start)
	before := user(func(*v1alpha1.User) {})
	for name, c := range map[string]struct {
		after any
		want  bool
	}{
		"nothing":    {user(func(*v1alpha1.User) {}), false},
		"login":      {user(func(u *v1alpha1.User) { u.Status.LastLogin = &stamp }), false},
		"condition":  {user(func(u *v1alpha1.User) { u.Status.Conditions = []metav1.Condition{{}} }), false},
		"spec":       {user(func(u *v1alpha1.User) { u.Generation = 2 }), true},
		"another":    {user(func(u *v1alpha1.User) { u.UID = "x" }), true},
		"deletion":   {user(func(u *v1alpha1.User) { u.DeletionTimestamp = &stamp }), true},
		"tokens end": {user(func(u *v1alpha1.User) { u.Status.TokensValidAfter = &stamp }), true},
		"logout":     {user(func(u *v1alpha1.User) { u.Status.RevokedSessions = []v1alpha1.RevokedSession{{ID: "x"}} }), true},
		"a secret":   {&corev1.Secret{}, true},
		"a tomb":     {"x", true},
	} {
		if got := matters(before, c.after); got != c.want {
			t.Errorf("%s matters: %v", name, got)
		}
	}
}

func BenchmarkNewView(b *testing.B) {
	objects := world()
	for i := range 10_000 {
		name := fmt.Sprintf("user%d", i)
		objects.Users = append(objects.Users, person(name, "a", name+"@example.com", "a1", "a2"))
		objects.AccessTokens = append(objects.AccessTokens, &v1alpha1.AccessToken{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AccessTokenSpec{User: name, SHA256: name}})
	}
	for b.Loop() {
		NewView(objects)
	}
}
