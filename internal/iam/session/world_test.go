package session

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/throttle"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const goodPassword = "correct horse"

// world is an API in memory: a Directory and a Writer.
type world struct {
	mu      sync.Mutex
	objects directory.Objects
	away    error // what writes fail with

	clock    *clocktesting.FakeClock
	log      bytes.Buffer
	hasher   *password.Hasher
	service  *Service
	reviewer *review.Reviewer
}

type oneKey struct{ key *ecdsa.PrivateKey }

func (k oneKey) Signing() (string, *ecdsa.PrivateKey, error) { return "k", k.key, nil }
func (k oneKey) Verifying(id string) (*ecdsa.PublicKey, bool) {
	return &k.key.PublicKey, id == "k"
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(start)}
	for organization, projects := range map[string][]string{"acme": {"web", "shop"}, "umbrella": {"lab"}} {
		w.objects.Organizations = append(w.objects.Organizations, &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: organization}})
		for _, project := range projects {
			w.objects.Projects = append(w.objects.Projects, &v1alpha1.Project{
				ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: v1alpha1.ProjectSpec{Organization: organization},
			})
		}
	}
	w.objects.Passwords = map[directory.PasswordKey]directory.Password{}
	var err error
	if w.hasher, err = password.NewHasher(password.Params{Memory: 64, Iterations: 1, Parallelism: 1}, 4); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := token.NewIssuer("https://iam.example", oneKey{key}, w.clock)
	w.service = New(Config{
		Directory: w, Writer: w, Issuer: issuer, Hasher: w.hasher,
		Accounts: throttle.New(AccountPolicy(), w.clock), Addresses: throttle.New(AddressPolicy(), w.clock),
		Clock: w.clock, Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: &w.log}, nil)),
	})
	w.reviewer = review.New(w, issuer, noUses{}, w.clock)
	return w
}

type noUses struct{}

func (noUses) Used(*directory.Token) {}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// user adds a person with goodPassword.
func (w *world) user(t *testing.T, name, organization string, memberships ...v1alpha1.Membership) *v1alpha1.User {
	t.Helper()
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))},
		Spec:       v1alpha1.UserSpec{Kind: v1alpha1.UserPerson, Organization: organization, Email: name + "@example.com", Projects: memberships},
	}
	w.objects.Users = append(w.objects.Users, u)
	hash, err := w.hasher.Hash(t.Context(), goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	w.objects.Passwords[directory.PasswordKey{Secret: "iam-password-" + name, Key: "hash"}] = directory.Password{Hash: hash}
	return u
}

func (w *world) robot(t *testing.T, name, organization, project string) *v1alpha1.User {
	t.Helper()
	u := w.user(t, name, organization, member(project, v1alpha1.RoleMember))
	u.Spec.Kind, u.Spec.Email = v1alpha1.UserServiceAccount, ""
	return u
}

func member(project string, role v1alpha1.Role) v1alpha1.Membership {
	return v1alpha1.Membership{Project: project, Role: role}
}

func (w *world) login(t *testing.T, name string, scope wire.Scope) *wire.Session {
	t.Helper()
	s, err := w.service.Login(t.Context(), wire.LoginRequest{Email: name + "@example.com", Password: goodPassword, Scope: scope}, "192.0.2.1")
	if err != nil {
		t.Fatalf("log %s in: %v", name, err)
	}
	w.service.Wait()
	return s
}

// caller logs somebody in and returns who they are.
func (w *world) caller(t *testing.T, name string, scope wire.Scope) *review.Identity {
	t.Helper()
	id, err := w.reviewer.Authenticate(w.login(t, name, scope).AccessToken, review.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) accepts(raw string) bool {
	_, err := w.reviewer.Authenticate(raw, review.Scope{})
	return err == nil
}

func assertFailure(t *testing.T, err error, code int) {
	t.Helper()
	var failed *Failure
	if !errors.As(err, &failed) || failed.Code != code {
		t.Errorf("got %v, want %d", err, code)
	}
}

func (w *world) View() *directory.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return directory.NewView(w.objects)
}

func (w *world) Await(_ context.Context, condition func(*directory.View) bool) error {
	if !condition(w.View()) {
		return errors.New("a change is not seen")
	}
	return nil
}

// change finds a user and changes it.
func (w *world) change(name string, change func(*v1alpha1.User)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return w.away
	}
	for _, u := range w.objects.Users {
		if u.Name == name {
			change(u)
			return nil
		}
	}
	return fmt.Errorf("no user %s", name)
}

func (w *world) RecordLogin(_ context.Context, user string, at time.Time) error {
	stamp := metav1.NewTime(at)
	return w.change(user, func(u *v1alpha1.User) { u.Status.LastLogin = &stamp })
}

func (w *world) EndTokens(_ context.Context, user string, before time.Time) error {
	stamp := metav1.NewTime(before)
	return w.change(user, func(u *v1alpha1.User) { u.Status.TokensValidAfter = &stamp })
}

func (w *world) RevokeSession(_ context.Context, user, session string, _, until time.Time) error {
	return w.change(user, func(u *v1alpha1.User) {
		u.Status.RevokedSessions = append(u.Status.RevokedSessions, v1alpha1.RevokedSession{ID: session, Until: metav1.NewTime(until)})
	})
}

func (w *world) SavePassword(_ context.Context, user, secret, key, hash string) error {
	return w.change(user, func(*v1alpha1.User) {
		w.objects.Passwords[directory.PasswordKey{Secret: secret, Key: key}] = directory.Password{Hash: hash}
	})
}

func (w *world) CreateAccessToken(_ context.Context, t *v1alpha1.AccessToken) (*v1alpha1.AccessToken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return nil, w.away
	}
	made := t.DeepCopy()
	made.Name = fmt.Sprintf("%s%d", t.GenerateName, len(w.objects.AccessTokens))
	made.CreationTimestamp = metav1.NewTime(w.clock.Now().Truncate(time.Second))
	w.objects.AccessTokens = append(w.objects.AccessTokens, made)
	return made, nil
}

func (w *world) RevokeAccessToken(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return w.away
	}
	for _, t := range w.objects.AccessTokens {
		if t.Name == name {
			t.Spec.Revoked = true
		}
	}
	return nil
}
