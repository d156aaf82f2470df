package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// sky is a cloud that says what it is told to, and counts how often it was asked.
type sky struct {
	incomplete, err error
	verdict         cloudapi.Verdict
	asked           int
}

func (*sky) Offers(v1alpha1.Provider) bool { return true }

func (s *sky) Complete(context.Context, *v1alpha1.Account) error { return s.incomplete }

func (s *sky) Verify(context.Context, *v1alpha1.Account) (cloudapi.Verdict, error) {
	s.asked++
	return s.verdict, s.err
}

type world struct {
	*Reconciler
	t       *testing.T
	sky     *sky
	at      time.Time
	account *v1alpha1.Account
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, sky: &sky{verdict: cloudapi.Verdict{Identity: "platform@shop"}}, at: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	w.Reconciler = &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Clouds: w.sky, Now: func() time.Time { return w.at }}
	w.account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "project-shop", Generation: 1}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderGCP}}
	return w
}

// look looks at the account after some time, and returns its phase, its conditions and when to look again.
func (w *world) look(after time.Duration) (said string, again time.Duration) {
	w.t.Helper()
	w.at = w.at.Add(after)
	again, err := w.describe(w.t.Context(), w.account, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	said = string(w.account.Status.Phase)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionVerified} {
		if condition := meta.FindStatusCondition(w.account.Status.Conditions, kind); condition != nil {
			said += fmt.Sprintf(" %s=%s/%s", kind, condition.Status, condition.Reason)
		}
	}
	return said, again
}

func (w *world) expect(after time.Duration, want string, asked int) {
	w.t.Helper()
	said, again := w.look(after)
	if said != want || w.sky.asked != asked || again <= 0 {
		w.t.Errorf("%s, asked %d times, again in %s; want %s after %d", said, w.sky.asked, again, want, asked)
	}
}

const well = "RUNNING Ready=True/Ready Verified=True/Verified"

func TestTheCloudIsAskedBeforeAnAccountIsUsedAndAtAnInterval(t *testing.T) {
	w := newWorld(t)
	w.sky.incomplete = errors.New("it lacks a key")
	w.expect(0, "PENDING Ready=False/Waiting", 0)
	w.sky.incomplete = nil
	w.expect(0, well, 1)
	w.expect(time.Minute, well, 1)
	w.expect(5*time.Minute, well, 2)
	if access := w.account.Status.Access; access.Identity != "platform@shop" || !access.CheckedAt.Time.Equal(w.at) {
		t.Errorf("%+v", access)
	}
	// At once, when somebody asks for it or changes it.
	w.account.Annotations = map[string]string{v1alpha1.AnnotationVerify: "now"}
	w.expect(time.Second, well, 3)
	w.expect(time.Second, well, 3)
	if w.account.Status.Access.Request != "now" {
		t.Errorf("%+v", w.account.Status.Access)
	}
	w.account.Generation++
	w.expect(time.Second, well, 4)
}

func TestRevokedCredentialsAreToldAndLookedAtAgainSoon(t *testing.T) {
	w := newWorld(t)
	w.expect(0, well, 1)
	w.sky.err = fmt.Errorf("%w: 401", cloudapi.ErrRejected)
	w.expect(5*time.Minute, "PENDING Ready=False/Revoked Verified=False/Revoked", 2)
	if message := meta.FindStatusCondition(w.account.Status.Conditions, v1alpha1.ConditionVerified).Message; !strings.Contains(message, "cloud account set-credentials prod") || !strings.Contains(message, "--forget") {
		t.Error(message)
	}
	w.sky.err = nil
	w.expect(30*time.Second, well, 3)
}

func TestWhatIsMissingIsListed(t *testing.T) {
	w := newWorld(t)
	w.sky.verdict.Missing = []string{"container.clusters.create"}
	w.expect(0, "PENDING Ready=False/PermissionsMissing Verified=False/PermissionsMissing", 1)
	if missing := w.account.Status.Access.Missing; len(missing) != 1 {
		t.Errorf("%v", missing)
	}
	w.sky.verdict.Simulated = true // which may be wrong
	w.expect(time.Minute, "RUNNING Ready=True/Ready Verified=False/PermissionsMissing", 2)
}

func TestACloudThatDoesNotAnswerCondemnsNobody(t *testing.T) {
	w := newWorld(t)
	w.sky.err = errors.New("no route to host")
	w.expect(0, "RUNNING Ready=True/Ready Verified=False/Unknown", 1)
	w.sky.err, w.sky.verdict.Unknown = nil, "it does not tell"
	w.expect(time.Minute, "RUNNING Ready=True/Ready Verified=False/Unknown", 2)
}
