package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/audit"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/tenant"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var (
	api   *testapi.Server
	kube  client.Client
	found = &findings{of: map[string][]v1alpha1.Finding{}, audits: map[string]int{}}
	begin sync.Once
	// changed tells the reconciler that somebody has changed a part of a cluster.
	changed = make(chan types.NamespacedName)
)

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// findings are what audits find, by the cluster's name.
type findings struct {
	mu     sync.Mutex
	of     map[string][]v1alpha1.Finding
	audits map[string]int
}

func (f *findings) Audit(_ context.Context, c *v1alpha1.Cluster, thorough bool) ([]v1alpha1.Finding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !thorough {
		return nil, nil
	}
	f.audits[c.Name]++
	return f.of[c.Name], nil
}

func (f *findings) set(name string, found ...v1alpha1.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[name] = found
}

// nobody is connected to no cluster.
type nobody struct{}

func (nobody) Get(*v1alpha1.Cluster) (*tenant.Connection, error) { return nil, tenant.ErrNotConnected }
func (nobody) Subscribe(func(tenant.Change))                     {}

// start runs the controllers once for all tests, and makes a namespace with a network.
func start(t *testing.T) string {
	t.Helper()
	namespace := api.Namespace(t)
	begin.Do(func() { startManager(t) })
	for _, object := range []client.Object{
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}},
		&v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	} {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return namespace
}

func startManager(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(api.Config(), ctrl.Options{
		Scheme: scheme, Logger: funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := audit.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	kube = manager.GetClient()
	auditing := &audit.Reconciler{
		Client: kube, Tenants: nobody{}, Auditors: map[v1alpha1.ClusterType]provisioner.Auditor{v1alpha1.ClusterFake: found},
		Limits: audit.Limits{
			Interval: 300 * time.Millisecond, Thorough: 300 * time.Millisecond, Grace: time.Second,
			Attempts: 2, First: 500 * time.Millisecond, Longest: time.Second, Quiet: time.Hour,
		},
		Follow: func(ctx context.Context, tell func(types.NamespacedName)) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case key := <-changed:
					tell(key)
				}
			}
		},
		Clock: clock.RealClock{}, Recorder: manager.GetEventRecorder("audit"), Metrics: metrics, Concurrency: 2,
	}
	err = errors.Join(
		(&account.Reconciler{Client: kube}).SetupWithManager(manager),
		(&network.Reconciler{Client: kube}).SetupWithManager(manager),
		(&cluster.Reconciler{Client: kube, Recorder: manager.GetEventRecorder("cluster")}).SetupWithManager(manager),
		auditing.SetupWithManager(manager),
	)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := manager.Start(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "manager:", err)
		}
	}()
	if kube, err = client.New(api.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
}

// life is a cluster whose tasks the test ends.
type life struct {
	t *testing.T
	c *v1alpha1.Cluster
}

// running makes a cluster and brings it up.
func running(t *testing.T, name string) *life {
	t.Helper()
	l := &life{t, &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: start(t), Name: name}, Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake},
	}}
	if err := kube.Create(t.Context(), l.c); err != nil {
		t.Fatal(err)
	}
	l.eventually("a task", func() bool { return l.c.Status.Task != "" })
	l.finish(l.c.Status.Task, v1alpha1.TaskSucceeded, "")
	l.eventually("it is healthy", func() bool { return l.condition(v1alpha1.ConditionHealthy) == v1alpha1.ReasonHealthy })
	return l
}

func (l *life) eventually(what string, want func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := kube.Get(l.t.Context(), client.ObjectKeyFromObject(l.c), l.c)
		if err == nil && want() {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not within 30 s: %s: %v: %+v", what, err, l.c.Status)
		}
	}
}

// condition is the reason of a condition, with ! before it where it is False.
func (l *life) condition(kind string) string {
	condition := meta.FindStatusCondition(l.c.Status.Conditions, kind)
	switch {
	case condition == nil:
		return ""
	case condition.Status == metav1.ConditionFalse:
		return "!" + condition.Reason
	}
	return condition.Reason
}

func (l *life) finish(name string, phase v1alpha1.TaskPhase, failure string) {
	l.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		task := &v1alpha1.Task{}
		if err := kube.Get(l.t.Context(), client.ObjectKey{Namespace: l.c.Namespace, Name: name}, task); err != nil {
			return err
		}
		now := metav1.Now()
		task.Status.Phase, task.Status.Error, task.Status.FinishedAt = phase, failure, &now
		return kube.Status().Update(l.t.Context(), task)
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// repairs are the cluster's tasks of that operation.
func (l *life) repairs() []v1alpha1.Task {
	l.t.Helper()
	var all v1alpha1.TaskList
	if err := kube.List(l.t.Context(), &all, client.InNamespace(l.c.Namespace)); err != nil {
		l.t.Fatal(err)
	}
	var repairs []v1alpha1.Task
	for _, task := range all.Items {
		if task.Spec.Operation == v1alpha1.OperationRepair {
			repairs = append(repairs, task)
		}
	}
	return repairs
}

// repair waits for the n-th repair, and ends it.
func (l *life) repair(n int, phase v1alpha1.TaskPhase) v1alpha1.Task {
	l.t.Helper()
	l.eventually(fmt.Sprintf("repair %d", n), func() bool { return len(l.repairs()) == n && l.c.Status.Phase == v1alpha1.PhaseRepairing })
	for _, task := range l.repairs() {
		if !task.Status.Phase.Finished() {
			l.finish(task.Name, phase, "it is still broken")
			return task
		}
	}
	l.t.Fatalf("no repair is under way: %v", l.repairs())
	return v1alpha1.Task{}
}

var stopped = v1alpha1.Finding{Check: "configuration", Subject: "host-1", Message: "the kubelet is stopped", Remedy: "look at its log", Repairable: true}

func TestWhatIsFoundIsRepairedByATaskThatSaysWhy(t *testing.T) {
	l := running(t, "broken")
	found.set("broken", stopped)
	changed <- client.ObjectKeyFromObject(l.c)
	l.eventually("it is told", func() bool { return l.condition(v1alpha1.ConditionHealthy) == "!"+v1alpha1.ReasonUnhealthy })
	if l.c.Status.Health.Findings[0] != stopped {
		t.Errorf("%+v", l.c.Status.Health)
	}
	task := l.repair(1, v1alpha1.TaskSucceeded)
	found.set("broken")
	if !task.Spec.Automatic || task.Spec.Force || task.Spec.Reason != "host-1: the kubelet is stopped" || task.Spec.Deadline == nil {
		t.Errorf("%+v", task.Spec)
	}
	l.eventually("all is well again", func() bool {
		return l.condition(v1alpha1.ConditionHealthy) == v1alpha1.ReasonHealthy && l.c.Status.Phase == v1alpha1.PhaseRunning && len(l.c.Status.Health.Findings) == 0
	})
	time.Sleep(time.Second)
	if n := len(l.repairs()); n != 1 {
		t.Errorf("%d repairs", n)
	}
}

func TestALostWorkerIsTheReasonOfARepairThoughItIsReplacedAtOnce(t *testing.T) {
	l := running(t, "replacing")
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.c.Namespace, Name: "replacing-workers-0"},
		Spec:       v1alpha1.MachineSpec{Account: "local", Cluster: l.c.Name, Role: v1alpha1.MachineWorker, NodeGroup: "workers", InstanceType: "u1.small"},
	}
	if err := kube.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for _, now := range []metav1.Condition{
		{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady},
		{Status: metav1.ConditionFalse, Reason: machine.ReasonLost, Message: "its pod is gone"},
	} {
		now.Type = v1alpha1.ConditionReady
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: machine.ConditionJoined, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady})
		meta.SetStatusCondition(&m.Status.Conditions, now)
		if err := kube.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := kube.Delete(t.Context(), m); err != nil { // as its node group does
		t.Fatal(err)
	}
	if task := l.repair(1, v1alpha1.TaskSucceeded); !task.Spec.Automatic || task.Spec.Reason != "replacing-workers-0: its pod is gone" {
		t.Errorf("%+v", task.Spec)
	}
	l.eventually("all is well again", func() bool { return l.condition(v1alpha1.ConditionHealthy) == v1alpha1.ReasonHealthy })
	time.Sleep(2 * time.Second)
	if n := len(l.repairs()); n != 1 {
		t.Errorf("%d repairs", n)
	}
}

func TestWhatCouldLoseDataIsRefused(t *testing.T) {
	l := running(t, "risky")
	found.set("risky", v1alpha1.Finding{Check: "machines", Message: "the only machine is lost", Risk: "its data are only there", Repairable: true})
	l.eventually("it is refused", func() bool {
		return l.condition(v1alpha1.ConditionHealthy) == "!"+v1alpha1.ReasonRepairRefused && l.condition(v1alpha1.ConditionStalled) == v1alpha1.ReasonRepairRefused
	})
	stalled := meta.FindStatusCondition(l.c.Status.Conditions, v1alpha1.ConditionStalled)
	for _, part := range []string{"the only machine is lost", "its data are only there", "cloud k8s repair --force"} {
		if !strings.Contains(stalled.Message, part) {
			t.Errorf("%q does not say %q", stalled.Message, part)
		}
	}
	if n := len(l.repairs()); n != 0 {
		t.Errorf("%d repairs", n)
	}
	// A person says that it may.
	l.annotate(v1alpha1.RepairRequest{At: time.Now(), Force: true})
	if task := l.repair(1, v1alpha1.TaskSucceeded); !task.Spec.Force || task.Spec.Automatic || task.Spec.Deadline != nil {
		t.Errorf("%+v", task.Spec)
	}
	found.set("risky")
	l.eventually("all is well", func() bool {
		return l.condition(v1alpha1.ConditionHealthy) == v1alpha1.ReasonHealthy && strings.HasPrefix(l.condition(v1alpha1.ConditionStalled), "!")
	})
}

func (l *life) annotate(request v1alpha1.RepairRequest) {
	l.t.Helper()
	before := l.c.DeepCopy()
	metav1.SetMetaDataAnnotation(&l.c.ObjectMeta, v1alpha1.AnnotationRepair, request.String())
	if err := kube.Patch(l.t.Context(), l.c, client.MergeFrom(before)); err != nil {
		l.t.Fatal(err)
	}
}

func TestRepairsThatDoNotHelpEnd(t *testing.T) {
	l := running(t, "hopeless")
	found.set("hopeless", stopped)
	l.repair(1, v1alpha1.TaskFailed)
	l.repair(2, v1alpha1.TaskSucceeded)
	exhausted := func() bool {
		return l.condition(v1alpha1.ConditionHealthy) == "!"+v1alpha1.ReasonRepairsExhausted && l.condition(v1alpha1.ConditionStalled) == v1alpha1.ReasonRepairsExhausted
	}
	l.eventually("a person is asked", exhausted)
	if message := l.c.Status.Health.Message; !strings.Contains(message, "2 repairs have not helped") || !strings.Contains(message, "look at its log") {
		t.Error(message)
	}
	time.Sleep(2 * time.Second)
	if n := len(l.repairs()); n != 2 {
		t.Fatalf("%d repairs", n)
	}
	l.annotate(v1alpha1.RepairRequest{At: time.Now()})
	l.repair(3, v1alpha1.TaskSucceeded)
	l.repair(4, v1alpha1.TaskSucceeded) // it was not mended, and there are attempts again
	found.set("hopeless")
	l.eventually("all is well", func() bool { return l.condition(v1alpha1.ConditionHealthy) == v1alpha1.ReasonHealthy })
}

func TestWhatNoRepairMendsIsTold(t *testing.T) {
	l := running(t, "expired")
	found.set("expired", v1alpha1.Finding{Check: "certificates", Message: "the authority has expired", Remedy: "make a new cluster"})
	l.eventually("it is told", func() bool {
		return l.condition(v1alpha1.ConditionHealthy) == "!"+v1alpha1.ReasonActionNeeded && l.condition(v1alpha1.ConditionStalled) == v1alpha1.ReasonActionNeeded
	})
	if len(l.repairs()) != 0 {
		t.Error("it is repaired all the same")
	}
}

func TestWhatPassesByItselfIsNotRepaired(t *testing.T) {
	l := running(t, "blinking")
	found.set("blinking", v1alpha1.Finding{Check: "api", Message: "it does not answer", Repairable: true})
	changed <- client.ObjectKeyFromObject(l.c)
	time.Sleep(1200 * time.Millisecond) // it is looked at a second after the change
	found.set("blinking")
	time.Sleep(2 * time.Second)
	l.eventually("it is read", func() bool { return true })
	if l.condition(v1alpha1.ConditionHealthy) != v1alpha1.ReasonHealthy || len(l.repairs()) != 0 {
		t.Errorf("%s, %d repairs", l.condition(v1alpha1.ConditionHealthy), len(l.repairs()))
	}
}
