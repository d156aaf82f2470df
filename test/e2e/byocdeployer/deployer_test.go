//go:build e2e

// Package byocdeployer is the scenario of deployers without a management cluster: the provisioner's steps, the service that
// deployers talk to, states over TLS, and the deployer's own command with the real OpenTofu and Google's provider, against a
// stub. Only the pods are not real: a function of the test is the kubelet. Deployers that run elsewhere are there as well,
// as programs of their own.
package byocdeployer

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/deployer/pods"
	"plasmacloud.io/plasmacloud/internal/deployer/remote"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
	taskv1 "plasmacloud.io/plasmacloud/proto/plasmacloud/task/v1"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stubgcp "plasmacloud.io/plasmacloud/test/stub/gcp"
)

const (
	platform = "plasmacloud-system"
	team     = "project-team"
)

func network() *v1alpha1.Network {
	made := byoclab.Network()
	made.Namespace = team
	return made
}

func cluster(nodes int32) *v1alpha1.Cluster {
	made := byoclab.Cluster(v1alpha1.ClusterGKE, nodes)
	made.Namespace = team
	return made
}

// lab is everything but the pods.
type lab struct {
	t           *testing.T
	stub        *stubgcp.Server
	server      *httptest.Server
	states      *state.Backend
	deployments *pods.Deployments
	provisioner *cloud.Provisioner
	release     string
	log         *byoclab.Log
	ca          []byte
	cluster     *v1alpha1.Cluster
	account     *v1alpha1.Account
	number      int
	later       atomic.Int64 // by how much the records' clock is ahead
	environment map[string]string

	mu      sync.Mutex
	running map[string]context.CancelFunc // deployers, by their pod
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, log: new(byoclab.Log), cluster: cluster(3), account: byoclab.GCPAccount(), running: map[string]context.CancelFunc{}}
	l.account.Namespace = team
	log := slog.New(slog.NewTextHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l.stub = stubgcp.New(stubgcp.Config{Delay: time.Second, Project: "stub-project", Token: byoclab.Secret})
	google := httptest.NewServer(l.stub)
	t.Cleanup(google.Close)
	l.environment = stubgcp.Environment(google.URL)
	l.environment["GOOGLE_OAUTH_ACCESS_TOKEN"] = byoclab.Secret
	var err error
	l.release, err = release.Locate("")
	must(t, err)
	store, err := state.NewDirectory(t.TempDir())
	must(t, err)
	keys, err := state.NewKeyring(bytes.Repeat([]byte{7}, state.KeySize))
	must(t, err)
	l.states, err = state.New(state.Config{Store: store, Keys: keys, Now: time.Now})
	must(t, err)
	tokens, err := state.NewTokens(bytes.Repeat([]byte{9}, state.KeySize), time.Now)
	must(t, err)
	mux := http.NewServeMux()
	l.server = httptest.NewUnstartedServer(mux)
	l.server.EnableHTTP2 = true // which gRPC needs
	l.server.StartTLS()
	t.Cleanup(l.server.Close)
	l.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	api := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "deployments", Namespace: platform}})
	api.PrependReactor("delete", "pods", l.terminate)
	l.deployments = pods.New(pods.Config{
		API: api, Namespace: platform,
		Service: "deployments", CA: func() ([]byte, error) { return l.ca, nil }, Token: tokens.Issue, Unlock: l.unlock, Log: log,
		Now: func() time.Time { return time.Now().Add(time.Duration(l.later.Load())) },
		Environment: func(context.Context, string, deployer.Account) (map[string]string, error) {
			return maps.Clone(l.environment), nil
		},
	})
	mux.Handle(deployer.PathOrders+"/", http.StripPrefix(deployer.PathOrders, deployer.NewService(l.deployments, tokens, log)))
	mux.Handle(deployer.PathStates+"/", http.StripPrefix(deployer.PathStates, state.NewHandler(l.states, tokens, log)))
	tasks := grpc.NewServer()
	taskv1.RegisterTaskManagerServer(tasks, remote.New(remote.Config{Records: l.deployments, Account: l.Account, StateToken: tokens.Issue, Lease: pods.LeaseDuration, Log: log}))
	mux.Handle("/"+taskv1.TaskManager_ServiceDesc.ServiceName+"/", tasks)
	l.provisioner, err = cloud.New(cloud.Config{
		Deployments: l.deployments, States: states{l.states}, Resources: l, Environment: l.deployments.Environment, Addons: &addons.Installer{}, Poll: 200 * time.Millisecond,
	})
	must(t, err)
	go l.kubelet(log)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", l.log)
		}
		if unknown := l.stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	return l
}

func (l *lab) unlock(ctx context.Context, stack string) error {
	record, err := l.states.Describe(ctx, stack)
	if errors.Is(err, state.ErrNotFound) || err == nil && record.Lock == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return l.states.Unlock(ctx, stack, record.Lock.ID)
}

// Account, Network and Cluster are the resources.
func (l *lab) Account(context.Context, string, string) (*v1alpha1.Account, error) {
	return l.account, nil
}

// Network implements cloud.Resources.
func (*lab) Network(context.Context, string, string) (*v1alpha1.Network, error) {
	return network(), nil
}

// Cluster implements cloud.Resources.
func (l *lab) Cluster(context.Context, string, string) (*v1alpha1.Cluster, error) {
	return l.cluster, nil
}

type states struct{ *state.Backend }

// Outputs implements cloud.States.
func (s states) Outputs(ctx context.Context, stack string) (map[string]json.RawMessage, error) {
	raw, err := s.Get(ctx, stack)
	if err != nil {
		return nil, err
	}
	return terraform.ReadOutputs(raw)
}

// Resources implements cloud.States.
func (s states) Resources(ctx context.Context, stack string) (map[string]string, error) {
	raw, err := s.Get(ctx, stack)
	if err != nil {
		return nil, err
	}
	return terraform.ReadState(raw)
}

// kubelet runs what pods say, with their Secrets in files.
func (l *lab) kubelet(log *slog.Logger) {
	api, ctx := l.deployments.API.CoreV1(), l.t.Context()
	seen := map[string]bool{}
	for ticker := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
		list, err := api.Pods(platform).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, pod := range list.Items {
			secret, err := api.Secrets(platform).Get(ctx, pod.Name, metav1.GetOptions{})
			if seen[pod.Name] || err != nil {
				continue // its token comes after the pod
			}
			seen[pod.Name] = true
			go l.container(&pod, secret, log)
		}
	}
}

func (l *lab) container(pod *corev1.Pod, secret *corev1.Secret, log *slog.Logger) {
	access, err := os.MkdirTemp("", "deployer-")
	if err != nil {
		return
	}
	defer func() { _ = os.RemoveAll(access) }()
	for name, content := range secret.Data {
		_ = os.WriteFile(filepath.Join(access, name), content, 0o600) // the deployer would notice
	}
	args := append(pod.Spec.Containers[0].Args[1:], "--server="+l.server.URL, "--access="+access, "--release-dir="+l.release, "--work-dir="+filepath.Join(access, "work"))
	pod.Status.Phase = corev1.PodSucceeded
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	l.mu.Lock()
	l.running[pod.Name] = cancel
	l.mu.Unlock()
	if err := deployer.RunCommand(ctx, args, cloud.Clouds(), log); err != nil {
		log.Error("deployer failed", "error", err)
		pod.Status.Phase = corev1.PodFailed
	}
	l.mu.Lock()
	delete(l.running, pod.Name)
	l.mu.Unlock()
	_, _ = l.deployments.API.CoreV1().Pods(platform).UpdateStatus(l.t.Context(), pod, metav1.UpdateOptions{}) // it may be gone
}

// terminate tells a deployer to end whose pod is deleted. The pod is there until it has.
func (l *lab) terminate(action clienttesting.Action) (handled bool, object runtime.Object, err error) {
	deletion, ok := action.(clienttesting.DeleteAction)
	if !ok {
		return false, nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cancel := l.running[deletion.GetName()]
	if cancel != nil {
		cancel()
	}
	return cancel != nil, nil, nil
}

// task is one of an operation.
func (l *lab) task(operation v1alpha1.Operation) *v1alpha1.Task {
	l.number++
	t := &v1alpha1.Task{Spec: v1alpha1.TaskSpec{Operation: operation}}
	t.UID = types.UID(fmt.Sprintf("task-%d", l.number))
	return t
}

// run does an operation.
func (l *lab) run(operation v1alpha1.Operation, object task.Object) map[string]string {
	l.t.Helper()
	return l.do(l.task(operation), object)
}

// do does the steps of a task as a worker would.
func (l *lab) do(t *v1alpha1.Task, object task.Object) map[string]string {
	l.t.Helper()
	made, operation := map[string]string{}, t.Spec.Operation
	steps, err := cloud.Stacks{Provisioner: l.provisioner}.Steps(t, object)
	must(l.t, err)
	for _, step := range steps {
		for deadline := time.Now().Add(4 * time.Minute); ; {
			scope := &task.Scope{Object: object, Attempt: 1, Task: t, Log: slog.New(slog.DiscardHandler)}
			err := step.Run(l.t.Context(), scope)
			maps.Copy(made, scope.Outputs())
			if err == nil {
				break
			}
			if task.IsPermanent(err) || time.Now().After(deadline) {
				l.t.Fatalf("%s: step %s: %v", operation, step.Name, err)
			}
			time.Sleep(time.Second) // as the worker's backoff
		}
	}
	return made
}

func TestDeployer(t *testing.T) { newLab(t).life(t) }

// life makes everything, looks at it again, changes it, and removes it.
func (l *lab) life(t *testing.T) {
	t.Helper()
	made := l.run(v1alpha1.OperationCreate, network())
	if !strings.Contains(made[provisioner.OutputNetwork], "projects/stub-project/global/networks/main-") {
		t.Errorf("the network: %v", made)
	}
	made = l.run(v1alpha1.OperationCreate, l.cluster)
	if !strings.HasPrefix(made[provisioner.OutputEndpoint], "https://gke-") || made[provisioner.OutputVersion] != "v1.35.2" || made[provisioner.OutputNodes] != "3" {
		t.Errorf("the cluster: %v", made)
	}
	bucket := &v1alpha1.Bucket{ObjectMeta: metav1.ObjectMeta{Name: "assets", Namespace: team}, Spec: v1alpha1.BucketSpec{Cluster: "shop"}}
	if made = l.run(v1alpha1.OperationCreate, bucket); !strings.HasPrefix(made[provisioner.OutputID], "assets-") {
		t.Errorf("the bucket: %v", made)
	}
	if made = l.run(v1alpha1.OperationRepair, l.cluster); strings.TrimSpace(made[provisioner.OutputPlan]) != "nothing to do" {
		t.Errorf("planned again:\n%s", made[provisioner.OutputPlan])
	}
	l.cluster = cluster(5)
	if made = l.run(v1alpha1.OperationScale, l.cluster); !strings.Contains(made[provisioner.OutputPlan], "0 created, 1 changed, 0 replaced, 0 destroyed") || made[provisioner.OutputNodes] != "5" {
		t.Errorf("scaled: %v", made)
	}
	for _, object := range []task.Object{bucket, l.cluster, network()} {
		l.run(v1alpha1.OperationDelete, object)
	}
	if left := l.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
	if strings.Contains(l.log.String(), byoclab.Secret) {
		t.Error("the log tells the credentials")
	}
}
