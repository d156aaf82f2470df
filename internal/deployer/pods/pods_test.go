package pods

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plasmacloud.io/plasmacloud/internal/deployer"
)

const secret = "wJalrXUtnFEMI"

// world is the deployments of a management cluster, and how often a lock was taken away.
type world struct {
	*Deployments
	t        *testing.T
	unlocked int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	api := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "deployments", Namespace: "platform"}, Spec: corev1.ServiceSpec{ClusterIP: "10.43.0.7"}})
	w.Deployments = New(Config{
		API: api, Namespace: "platform", Image: "cloudd:1", ReleaseClaim: "release", Service: "deployments",
		CA:     func() ([]byte, error) { return []byte("CA"), nil },
		Token:  func(stack string, _ time.Duration) string { return "token of " + stack },
		Unlock: func(context.Context, string) error { w.unlocked++; return nil },
		Environment: func(_ context.Context, cloud string, account deployer.Account) (map[string]string, error) {
			return map[string]string{"SECRET": secret, "WHO": cloud + "/" + account.Namespace + "/" + account.Name}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func request(id string) deployer.Request {
	return deployer.Request{ID: id, Stack: "shop.network.main", Operation: deployer.Apply, Cloud: "gcp", Account: deployer.Account{Namespace: "project-shop", Name: "prod"}}
}

func (w *world) ensure(id string) deployer.Report {
	w.t.Helper()
	report, err := w.Ensure(w.t.Context(), request(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	list, err := w.API.CoreV1().Pods("platform").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) report(report deployer.Report) error {
	return w.Report(w.t.Context(), "shop.network.main", report)
}

func (w *world) mustReport(report deployer.Report) {
	w.t.Helper()
	if err := w.report(report); err != nil {
		w.t.Fatal(err)
	}
}

func turn(id string, attempt int) deployer.Turn { return deployer.Turn{ID: id, Attempt: attempt} }

func TestAnOperationBeginsOnce(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		if report := w.ensure("a"); report.Phase != deployer.Pending {
			t.Errorf("%+v", report)
		}
	}
	pods := w.pods()
	if len(pods) != 1 {
		t.Fatalf("%d pods", len(pods))
	}
	spec := pods[0].Spec
	if spec.HostAliases[0].IP != "10.43.0.7" || *spec.AutomountServiceAccountToken || spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", spec)
	}
	if text := strings.Join(spec.Containers[0].Args, " "); strings.Contains(text, "token of") || !strings.Contains(text, "--stack=shop.network.main") {
		t.Errorf("arguments %s", text)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Applying, Message: "3/7"})
	if report := w.ensure("a"); report.Message != "3/7" {
		t.Errorf("%+v", report)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Succeeded})
	if report := w.ensure("a"); report.Phase != deployer.Succeeded || len(w.pods()) != 0 {
		t.Errorf("%+v, %d pods", report, len(w.pods()))
	}
	if err := w.report(deployer.Report{Turn: turn("a", 1), Phase: deployer.Applying}); !errors.Is(err, deployer.ErrReplaced) {
		t.Errorf("a report after the end: %v", err)
	}
}

func TestALostDeployerIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Applying, Message: "3/7"})
	pod := w.pods()[0]
	pod.Status.Phase = corev1.PodFailed
	if _, err := w.API.CoreV1().Pods("platform").UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if report := w.ensure("a"); report.Phase != deployer.Failed || report.Permanent || !strings.Contains(report.Error, "was lost") || !strings.Contains(report.Error, "3/7") {
		t.Errorf("%+v", report)
	}
	before := w.unlocked
	if report := w.ensure("a"); report.Phase != deployer.Pending || report.Attempt != 2 || w.unlocked != before+1 {
		t.Errorf("%+v, unlocked %d", report, w.unlocked)
	}
	if pods := w.pods(); len(pods) != 1 || pods[0].Name == pod.Name {
		t.Errorf("pods %v", pods)
	}
	if err := w.report(deployer.Report{Turn: turn("a", 1), Phase: deployer.Succeeded}); !errors.Is(err, deployer.ErrReplaced) {
		t.Errorf("a report of the lost one: %v", err)
	}
	if _, err := w.Order(t.Context(), "shop.network.main", turn("a", 1)); !errors.Is(err, deployer.ErrReplaced) {
		t.Errorf("an order for the lost one: %v", err)
	}
	order, err := w.Order(t.Context(), "shop.network.main", turn("a", 2))
	if err != nil || !order.Adopt || order.Environment["WHO"] != "gcp/project-shop/prod" {
		t.Errorf("%v, %v", order, err)
	}
}

func TestAFailureIsToldOnceAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Failed, Error: "no quota"})
	if report := w.ensure("a"); report.Error != "no quota" {
		t.Errorf("%+v", report)
	}
	if report := w.ensure("a"); report.Attempt != 2 || report.Phase != deployer.Pending {
		t.Errorf("%+v", report)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 2), Phase: deployer.Failed, Error: "it would lose data", Permanent: true})
	for range 2 {
		if report := w.ensure("a"); !report.Permanent {
			t.Errorf("%+v", report)
		}
	}
}

func TestOneOperationOnAStackAtATime(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Applying, Message: "3/7"})
	if report := w.ensure("b"); report.Phase != deployer.Pending || !strings.Contains(report.Message, "begun earlier: 3/7") || len(w.pods()) != 1 {
		t.Errorf("%+v", report)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Succeeded})
	if report := w.ensure("b"); report.Turn != turn("b", 1) {
		t.Errorf("%+v", report)
	}
	if order, err := w.Order(t.Context(), "shop.network.main", turn("b", 1)); err != nil || order.Adopt {
		t.Errorf("%v, %v", order, err)
	}
}

func TestCredentialsAreStoredNowhere(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	if _, err := w.Order(t.Context(), "shop.network.main", turn("a", 1)); err != nil {
		t.Fatal(err)
	}
	secrets, err := w.API.CoreV1().Secrets("platform").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 2 {
		t.Fatalf("%d secrets, %v", len(secrets.Items), err)
	}
	for _, object := range secrets.Items {
		for key, value := range object.Data {
			if strings.Contains(string(value), secret) {
				t.Errorf("%s of %s has it", key, object.Name)
			}
		}
	}
	if err := w.Forget(t.Context(), "shop.network.main"); err != nil || len(w.pods()) != 0 {
		t.Errorf("%v, %d pods", err, len(w.pods()))
	}
}

// looks asks for a plan.
func (w *world) looks(id string) deployer.Report {
	w.t.Helper()
	asked := request(id)
	asked.Operation = deployer.Plan
	asked.Variables = []byte(`{"version": "what if"}`)
	report, err := w.Ensure(w.t.Context(), asked)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestAPlanLeavesWhatWasThere(t *testing.T) {
	w := newWorld(t)
	first := request("a")
	first.Variables, first.InfraVersion = []byte(`{"version":"1.35"}`), "v1.0.0"
	if _, err := w.Ensure(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Failed, Error: "no", Permanent: true})
	w.looks("b")
	if order, err := w.Order(t.Context(), first.Stack, turn("b", 1)); err != nil || !order.Adopt {
		t.Errorf("%v: %v", order, err)
	}
	w.mustReport(deployer.Report{Turn: turn("b", 1), Phase: deployer.Succeeded})
	// What the failed one left behind is still to be looked for, and what it was made with is still known.
	remove := request("c")
	remove.Operation = deployer.Destroy
	if _, err := w.Ensure(t.Context(), remove); err != nil {
		t.Fatal(err)
	}
	order, err := w.Order(t.Context(), first.Stack, turn("c", 1))
	if err != nil || !order.Adopt || string(order.Variables) != `{"version":"1.35"}` || order.InfraVersion != "v1.0.0" {
		t.Errorf("%+v %s: %v", order.Request, order.Variables, err)
	}
	w.mustReport(deployer.Report{Turn: turn("c", 1), Phase: deployer.Succeeded})
	// One that failed to look has left nothing.
	w.looks("d")
	w.mustReport(deployer.Report{Turn: turn("d", 1), Phase: deployer.Failed, Error: "no"})
	w.ensure("e")
	if order, err := w.Order(t.Context(), first.Stack, turn("e", 1)); err != nil || order.Adopt {
		t.Errorf("%v: %v", order, err)
	}
}

func TestACancelledOperationComesToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	cancel := func(id string) bool {
		t.Helper()
		ended, err := w.Cancel(t.Context(), "shop.network.main", id)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	if !cancel("another") || len(w.pods()) != 1 {
		t.Error("another operation was cancelled")
	}
	if cancel("a") || len(w.pods()) != 0 { // it is told to end, and may take its time
		t.Error("it has not been told to end")
	}
	if !cancel("a") {
		t.Error("there is no deployer any more, and it has not ended")
	}
	if report := w.ensure("b"); report.Phase != deployer.Pending || len(w.pods()) != 1 {
		t.Errorf("the next one: %+v", report)
	}
	// One that tells of its end itself.
	w.mustReport(deployer.Report{Turn: turn("b", 1), Phase: deployer.Applying})
	if cancel("b") {
		t.Error("it has ended")
	}
	w.mustReport(deployer.Report{Turn: turn("b", 1), Phase: deployer.Failed, Error: "interrupted"})
	if !cancel("b") {
		t.Error("it has not ended")
	}
}

func TestTheNextAttemptHasTheNewCredentials(t *testing.T) {
	w := newWorld(t)
	current := "old"
	w.Environment = func(context.Context, string, deployer.Account) (map[string]string, error) {
		return map[string]string{"SECRET": current}, nil
	}
	w.ensure("a")
	if order, err := w.Order(t.Context(), "shop.network.main", turn("a", 1)); err != nil || order.Environment["SECRET"] != "old" {
		t.Fatalf("%v: %v", order, err)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Failed, Error: "401"})
	current = "new"
	w.ensure("a") // tells of the failure
	w.ensure("a")
	if order, err := w.Order(t.Context(), "shop.network.main", turn("a", 2)); err != nil || order.Environment["SECRET"] != "new" {
		t.Errorf("%v: %v", order, err)
	}
}

func TestHostsOfEarlierAttemptsAreKnown(t *testing.T) {
	w := newWorld(t)
	earlier := func(id string, attempt int) []string {
		t.Helper()
		order, err := w.Order(t.Context(), "shop.network.main", turn(id, attempt))
		if err != nil {
			t.Fatal(err)
		}
		return order.Earlier
	}
	w.ensure("a")
	if have := earlier("a", 1); len(have) != 0 {
		t.Errorf("at first: %v", have)
	}
	for attempt, host := range []string{"one", "two", "one"} {
		w.mustReport(deployer.Report{Turn: turn("a", attempt+1), Host: host, Phase: deployer.Applying})
		w.mustReport(deployer.Report{Turn: turn("a", attempt+1), Host: host, Phase: deployer.Failed, Error: "no quota"})
		w.ensure("a") // which tells it
		w.ensure("a")
	}
	if have := earlier("a", 4); !slices.Equal(have, []string{"one", "two"}) {
		t.Errorf("after three: %v", have)
	}
	w.mustReport(deployer.Report{Turn: turn("a", 4), Host: "four", Phase: deployer.Failed, Permanent: true})
	w.ensure("b")
	if have := earlier("b", 1); !slices.Equal(have, []string{"one", "two", "four"}) {
		t.Errorf("another operation: %v", have)
	}
	w.mustReport(deployer.Report{Turn: turn("b", 1), Host: "five", Phase: deployer.Succeeded})
	w.ensure("c")
	if have := earlier("c", 1); len(have) != 0 {
		t.Errorf("after one that succeeded: %v", have)
	}
}
