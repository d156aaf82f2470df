package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
	"plasmacloud.io/plasmacloud/internal/terminal"
	"plasmacloud.io/plasmacloud/internal/terminal/wire"
)

// site is a service with one machine, which a real SSH server answers for.
type site struct {
	t      *testing.T
	server *httptest.Server
	events *events.FakeRecorder
	log    bytes.Buffer
	asked  []machine.Key
}

// Reach implements machine.Reacher.
type reacher func(ctx context.Context, key machine.Key) (*remote.Client, error)

func (r reacher) Reach(ctx context.Context, key machine.Key) (*remote.Client, error) {
	return r(ctx, key)
}

func newSite(t *testing.T) *site {
	t.Helper()
	host := sshtest.Start(t)
	key, err := remote.ParseKey(host.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := remote.NewPool(remote.Config{})
	t.Cleanup(pool.Close)
	s := &site{t: t, events: events.NewFakeRecorder(100)}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "project-web", Name: name} }
	objects := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v1alpha1.Cluster{ObjectMeta: named("dev")}, &v1alpha1.Account{ObjectMeta: named("yard"), Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderSSH}},
		&v1alpha1.Machine{ObjectMeta: named("dev-a"), Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "yard"}},
		&v1alpha1.Machine{ObjectMeta: named("dev-off"), Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "yard"}},
	).Build()
	service := terminal.New(terminal.Config{
		API: judges(), Objects: objects, Recorder: s.events, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Reacher: func(provider v1alpha1.Provider) (machine.Reacher, error) {
			return reacher(func(_ context.Context, wanted machine.Key) (*remote.Client, error) {
				s.asked = append(s.asked, wanted)
				if wanted.Name == "dev-off" || provider != v1alpha1.ProviderSSH {
					return nil, errors.New("it is Pending: it restarts")
				}
				return pool.Client(remote.Host{Address: host.Address, Port: host.Port, Key: key, HostKey: host.HostKey}), nil
			}), nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle(wire.Pattern, service)
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

// judges is an API that knows ann, who may do everything in project web, and vic, who may look.
func judges() *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		name, ok := strings.CutPrefix(review.Spec.Token, "token of ")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name, Groups: []string{"people"}}}
		return true, review, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		about := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "ann" && about.Namespace == "project-web" && about.Verb == "create" && about.Resource == "machines" && about.Subresource == "console"
		return true, review, nil
	})
	return api
}

// run runs a command as somebody, and returns what it prints.
func (s *site) run(who, project, name, input string, command ...string) (out, complaint string, err error) {
	s.t.Helper()
	query := url.Values{wire.Command: command, wire.Stdin: {"1"}, wire.Stdout: {"1"}, wire.Stderr: {"1"}}
	target, err := url.Parse(s.server.URL + wire.Path(project, name) + "?" + query.Encode())
	if err != nil {
		s.t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: s.server.URL, BearerToken: who}, "POST", target)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
	return stdout.String(), stderr.String(), err
}

func TestACommandRunsOnTheMachine(t *testing.T) {
	s := newSite(t)
	out, complaint, err := s.run("token of ann", "web", "dev-a", "typed\n", "sh", "-c", `cat; echo "$0" >&2; exit 3`, "it's a secret")
	if ended, ok := errors.AsType[exec.CodeExitError](err); !ok || ended.Code != 3 {
		t.Errorf("error %v", err)
	}
	if out != "typed\n" || complaint != "it's a secret\n" {
		t.Errorf("%q, %q", out, complaint)
	}
	if told := <-s.events.Events; !strings.Contains(told, "TerminalOpened ann runs sh on it") {
		t.Errorf("event %q", told)
	}
	if log := s.log.String(); !strings.Contains(log, "user=ann") || !strings.Contains(log, "machine=dev-a") || strings.Contains(log, "secret") {
		t.Errorf("log %s", log)
	}
	want := machine.Key{Namespace: v1alpha1.InfrastructureNamespace(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "dev"}}), Cluster: "dev", Name: "dev-a"}
	if len(s.asked) != 1 || s.asked[0] != want {
		t.Errorf("reached %v", s.asked)
	}
}

func TestWithoutACommandThereIsAShell(t *testing.T) {
	s := newSite(t)
	out, _, err := s.run("token of ann", "web", "dev-a", "echo I am $(id -un)\nexit\n")
	if err != nil || !strings.Contains(out, "I am root") {
		t.Errorf("%q: %v", out, err)
	}
}

func TestWhoIsNotLetIn(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		who, project, machine string
		is                    func(error) bool
		says                  string
	}{
		"nobody":          {"", "web", "dev-a", apierrors.IsUnauthorized, "cloud login"},
		"a forged token":  {"forged", "web", "dev-a", apierrors.IsUnauthorized, "cloud login"},
		"a viewer":        {"token of vic", "web", "dev-a", apierrors.IsForbidden, `user "vic" may not open terminals`},
		"another project": {"token of ann", "shop", "dev-a", apierrors.IsForbidden, "may not open terminals"},
		"no machine":      {"token of ann", "web", "dev-z", apierrors.IsNotFound, "dev-z"},
		"a machine off":   {"token of ann", "web", "dev-off", apierrors.IsServiceUnavailable, "it is Pending"},
	} {
		_, _, err := s.run(c.who, c.project, c.machine, "", "true")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if status := s.ask(c.who, c.project, c.machine); !c.is(&apierrors.StatusError{ErrStatus: status}) || !strings.Contains(status.Message, c.says) {
			t.Errorf("%s, asked: %+v", name, status)
		}
	}
	if status := s.ask("token of ann", "web", "dev-a"); status.Code != http.StatusNoContent {
		t.Errorf("ann: %+v", status)
	}
	if len(s.events.Events) > 0 {
		t.Errorf("events: %s", <-s.events.Events)
	}
}

// ask asks whether somebody would be let in.
func (s *site) ask(who, project, name string) metav1.Status {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+wire.Path(project, name), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+who)
	response, err := s.server.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	status := metav1.Status{Code: int32(response.StatusCode)}
	if response.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
			s.t.Fatal(err)
		}
	}
	return status
}
