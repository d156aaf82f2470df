package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/deployer/pods"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/testapi"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
)

const (
	secret = "wJalrXUtnFEMI"
	stack  = "shop.network.main"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// world is a platform with the accounts prod and other, each with the token of its name, and a clock that can be moved.
type world struct {
	*pods.Deployments
	t        *testing.T
	server   *httptest.Server
	ca       []byte
	later    atomic.Int64
	unlocked atomic.Int32
	mu       sync.Mutex
	log      bytes.Buffer
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clients, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	log := slog.New(slog.NewTextHandler(w, nil))
	w.Deployments = pods.New(pods.Config{
		API: clients, Namespace: api.Namespace(t), Log: log,
		Now:    func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
		Unlock: func(context.Context, string) error { w.unlocked.Add(1); return nil },
		Environment: func(context.Context, string, deployer.Account) (map[string]string, error) {
			return map[string]string{"KEY": secret}, nil
		},
	})
	service := New(Config{
		Records: w, Lease: pods.LeaseDuration, Log: log,
		StateToken: func(stack string, _ time.Duration) string { return "state token of " + stack },
		Account: func(_ context.Context, namespace, name string) (*v1alpha1.Account, error) {
			if namespace != "project-shop" || name != "prod" && name != "other" {
				return nil, errors.New("no such account")
			}
			return &v1alpha1.Account{Spec: v1alpha1.AccountSpec{
				Deployer: &v1alpha1.AccountDeployer{Remote: true, Tokens: []v1alpha1.DeployerToken{v1alpha1.HashDeployerToken(name)}},
			}}, nil
		},
	})
	server := grpc.NewServer()
	taskv1.RegisterTaskManagerServer(server, service)
	w.server = httptest.NewUnstartedServer(server)
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	w.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	return w
}

// deployer is one of an account, with a token.
func (w *world) deployer(name, account, token string) *Client {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	c, err := Connect(Options{
		Server: w.server.URL, CA: w.ca, Project: "shop", Account: account, TokenFile: file, Name: name,
		Limit: 2, Poll: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(w, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.connection.Close() })
	return c
}

// get comes for tasks once.
func (w *world) get(c *Client) []*taskv1.TaskInfo {
	w.t.Helper()
	response, err := c.getTasks(w.t.Context(), 5)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.GetTasks()
}

func (w *world) ensure(id string) deployer.Report {
	w.t.Helper()
	report, err := w.Ensure(w.t.Context(), deployer.Request{
		ID: id, Stack: stack, Operation: deployer.Apply, Cloud: "gcp", Remote: true, Variables: json.RawMessage(`{"a":1}`), Consent: []string{"b"},
		Account: deployer.Account{Namespace: "project-shop", Name: "prod"},
		Backend: &terraform.Backend{Type: "s3", Settings: map[string]any{"bucket": "states", "encrypt": true}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestOneOrderTwoDeployers(t *testing.T) {
	w := newWorld(t)
	first, second := w.deployer("first", "prod", "prod"), w.deployer("second", "prod", "prod")
	if tasks := w.get(first); len(tasks) != 0 {
		t.Fatalf("there is nothing to do, and they get %v", tasks)
	}
	if report := w.ensure("a"); report.Phase != deployer.Pending {
		t.Errorf("%+v", report)
	}
	if report := w.ensure("a"); !strings.Contains(report.Message, "waits for a deployer of account prod") {
		t.Errorf("%+v", report)
	}
	var all []*taskv1.TaskInfo
	var mu sync.Mutex
	var both sync.WaitGroup
	for range 5 {
		for _, each := range []*Client{first, second} {
			both.Go(func() {
				response, err := each.getTasks(t.Context(), 5)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, response.GetTasks()...)
			})
		}
	}
	both.Wait()
	if len(all) != 1 {
		t.Fatalf("%d tasks for one order", len(all))
	}
	order, err := orderOf(all[0])
	if err != nil || order.Backend.Type != "s3" || order.Backend.Settings["bucket"] != "states" || order.Backend.Settings["encrypt"] != true {
		t.Errorf("%+v, %v", order.Backend, err)
	}
	if order.Environment["KEY"] != secret || string(order.Variables) != `{"a":1}` || order.Consent[0] != "b" || all[0].GetRef().GetFencingToken() != 1 || all[0].GetStateToken() != "state token of "+stack {
		t.Errorf("%v", order)
	}
	if report := w.ensure("a"); !strings.Contains(report.Message, "is with deployer ") {
		t.Errorf("%+v", report)
	}
	if report := w.ensure("b"); !strings.Contains(report.Message, "begun earlier") {
		t.Errorf("another operation: %+v", report)
	}
	reporter := &platform{client: first, info: all[0]}
	if err := reporter.Report(t.Context(), deployer.Report{Phase: deployer.Succeeded, Outputs: map[string]json.RawMessage{"id": json.RawMessage(`"x"`)}}); err != nil {
		t.Fatal(err)
	}
	if report := w.ensure("a"); report.Phase != deployer.Succeeded || string(report.Outputs["id"]) != `"x"` {
		t.Errorf("%+v", report)
	}
}

func TestALeaseThatRunsOut(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	lost, next := w.deployer("lost", "prod", "prod"), w.deployer("next", "prod", "prod")
	old := w.get(lost)[0]
	w.later.Add(int64(pods.LeaseDuration - time.Second))
	if _, err := lost.tasks.Heartbeat(t.Context(), &taskv1.HeartbeatRequest{Account: lost.account(), Task: old.GetRef()}); err != nil {
		t.Fatal(err)
	}
	w.later.Add(int64(pods.LeaseDuration - time.Second))
	if report := w.ensure("a"); report.Phase == deployer.Failed {
		t.Errorf("renewed, and yet %+v", report)
	}
	w.later.Add(int64(2 * time.Second))
	if report := w.ensure("a"); report.Phase != deployer.Failed || report.Permanent || !strings.Contains(report.Error, "was lost") {
		t.Errorf("%+v", report)
	}
	if tasks := w.get(next); len(tasks) != 0 {
		t.Errorf("given away before it was tried again: %v", tasks)
	}
	before := w.unlocked.Load()
	if report := w.ensure("a"); report.Attempt != 2 || w.unlocked.Load() != before+1 {
		t.Errorf("%+v, unlocked %d times", report, w.unlocked.Load()-before)
	}
	tasks := w.get(next)
	if len(tasks) != 1 || tasks[0].GetRef().GetFencingToken() != 2 || !tasks[0].GetAdopt() {
		t.Fatalf("%v", tasks)
	}
	late := &platform{client: lost, info: old}
	if err := late.Report(t.Context(), deployer.Report{Phase: deployer.Succeeded}); !errors.Is(err, deployer.ErrReplaced) {
		t.Errorf("a late report: %v", err)
	}
	if _, err := lost.tasks.Heartbeat(t.Context(), &taskv1.HeartbeatRequest{Account: lost.account(), Task: old.GetRef()}); status.Code(err) != codes.Aborted {
		t.Errorf("a late heartbeat: %v", err)
	}
	if err := (&platform{client: next, info: tasks[0]}).Report(t.Context(), deployer.Report{Phase: deployer.Planning, Message: "planning"}); err != nil {
		t.Error(err)
	}
}

func TestNobodyIsLostWhileThePlatformWasAway(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	w.get(w.deployer("one", "prod", "prod"))
	w.later.Add(int64(time.Hour))
	w.Deployments = pods.New(w.Config) // it has started just now
	if report := w.ensure("a"); report.Phase == deployer.Failed {
		t.Errorf("%+v", report)
	}
}

func TestATokenIsForOneAccount(t *testing.T) {
	w := newWorld(t)
	w.ensure("a")
	for name, test := range map[string]struct {
		account, token string
		code           codes.Code
	}{
		"another account's":            {"prod", "other", codes.PermissionDenied},
		"none":                         {"prod", "", codes.Unauthenticated},
		"of an account that is no one": {"nobody", "prod", codes.PermissionDenied},
	} {
		c := w.deployer("d", test.account, test.token)
		if _, err := c.getTasks(t.Context(), 1); status.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Errorf("%s: it goes on", name)
		}
	}
	other := w.deployer("d", "other", "other")
	if tasks := w.get(other); len(tasks) != 0 {
		t.Errorf("it gets the work of another account: %v", tasks)
	}
	task := w.get(w.deployer("own", "prod", "prod"))[0]
	if err := (&platform{client: other, info: task}).Report(t.Context(), deployer.Report{Phase: deployer.Succeeded}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("it reports on the work of another account: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.log.String(), secret) || strings.Contains(w.log.String(), "Bearer") {
		t.Error("the log tells secrets")
	}
}

func TestADeployerRunsTasksAndDrains(t *testing.T) {
	w := newWorld(t)
	c := w.deployer("one", "prod", "prod")
	began, finish := make(chan deployer.Config, 1), make(chan struct{})
	c.run = func(ctx context.Context, config deployer.Config) error {
		began <- config
		select {
		case <-finish:
			return config.Platform.Report(ctx, deployer.Report{Turn: config.Turn, Phase: deployer.Succeeded})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	w.ensure("a")
	config := <-began
	if config.Stack != stack || config.Turn != (deployer.Turn{ID: "a", Attempt: 1}) || config.Token != "state token of "+stack {
		t.Errorf("%+v", config.Turn)
	}
	stop()
	select {
	case err := <-ended:
		t.Fatalf("it has left its task: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if report := w.ensure("a"); report.Phase != deployer.Succeeded {
		t.Errorf("%+v", report)
	}
}

func TestWhoIsReplacedStops(t *testing.T) {
	w := newWorld(t)
	c := w.deployer("one", "prod", "prod")
	w.ensure("a")
	task := w.get(c)[0]
	if err := w.Forget(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	c.run = func(ctx context.Context, _ deployer.Config) error {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return ctx.Err()
	}
	c.runTask(t.Context(), task, 60*time.Millisecond)
	if err := <-stopped; !errors.Is(err, deployer.ErrReplaced) {
		t.Errorf("stopped by %v", err)
	}
}

func TestArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"--token-file":       {"--server=https://a"},
		"project/name":       {"--server=https://a", "--account=prod", "--token-file=t", "--ca-file=c", "--work-dir=w"},
		"/nowhere":           {"--server=https://a", "--account=shop/prod", "--token-file=t", "--ca-file=/nowhere", "--work-dir=w"},
		"greater than zero":  {"--server=https://a", "--account=shop/prod", "--token-file=t", "--ca-file=c", "--work-dir=w", "--limit=0"},
		"unknown flag: --no": {"--no"},
	} {
		if err := RunCommand(t.Context(), args, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestPhasesAndOutputsAreChecked(t *testing.T) {
	for want, report := range map[string]*taskv1.TaskReport{
		"no phase": {Phase: "Done"}, "not JSON": {Phase: "Succeeded", Outputs: map[string][]byte{"a": []byte("{")}},
	} {
		if _, err := reportOf(&taskv1.ReportTaskRequest{Report: report}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
