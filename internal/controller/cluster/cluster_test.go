package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var (
	api  *testapi.Server
	kube client.Client
)

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// start runs the controllers and returns a client and a namespace with a network in it.
func start(t *testing.T) (client.Client, string) {
	t.Helper()
	namespace := api.Namespace(t)
	if kube == nil {
		kube = startManager(t)
	}
	create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "local")})
	create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "default")})
	return kube, namespace
}

// startManager starts the controllers once for all tests: metrics and indexes are a process's, not a manager's.
func startManager(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(api.Config(), ctrl.Options{
		Scheme: scheme, Logger: funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		(&account.Reconciler{Client: manager.GetClient()}).SetupWithManager(manager),
		(&network.Reconciler{Client: manager.GetClient()}).SetupWithManager(manager),
		(&cluster.Reconciler{Client: manager.GetClient(), Recorder: manager.GetEventRecorder("cluster")}).SetupWithManager(manager),
	)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := manager.Start(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "manager:", err)
		}
	}()
	direct, err := client.New(api.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return direct
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := kube.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// eventually reads the object until want is satisfied.
func eventually(t *testing.T, object client.Object, what string, want func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil && want() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func task(namespace string, c *v1alpha1.Cluster) *v1alpha1.Task {
	return &v1alpha1.Task{ObjectMeta: named(namespace, c.Status.Task)}
}

// finish is the worker's part: it ends the cluster's current task.
func finish(t *testing.T, c *v1alpha1.Cluster, phase v1alpha1.TaskPhase, failure string, outputs map[string]string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current := task(c.Namespace, c)
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil {
			return err
		}
		current.Status.Phase, current.Status.Error, current.Status.Outputs = phase, failure, outputs
		current.Status.Step, current.Status.Progress = "bootstrap", "2/5"
		return kube.Status().Update(t.Context(), current)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newCluster(namespace, name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: named(namespace, name),
		Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake, Version: "v1.35", NodeGroups: map[string]v1alpha1.NodeGroupTemplate{
			"workers": {MinReplicas: 2, MaxReplicas: 5},
		}},
	}
}

// running makes a cluster and brings it up.
func running(t *testing.T, namespace, name string) *v1alpha1.Cluster {
	t.Helper()
	c := newCluster(namespace, name)
	create(t, c)
	eventually(t, c, "a task", func() bool { return c.Status.Task != "" })
	finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"endpoint": "https://10.0.0.1:6443", "version": "v1.35.4", "nodes": "2", "readyNodes": "2"})
	eventually(t, c, "RUNNING", func() bool { return c.Status.Phase == v1alpha1.PhaseRunning })
	return c
}

// change changes a cluster, whoever else does at the same time.
func change(t *testing.T, c *v1alpha1.Cluster, how func()) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		how()
		return kube.Update(t.Context(), c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func operationOf(t *testing.T, c *v1alpha1.Cluster) v1alpha1.Operation {
	t.Helper()
	current := task(c.Namespace, c)
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil {
		t.Fatal(err)
	}
	return current.Spec.Operation
}

func TestACreatedClusterGetsATaskAndItsOutcome(t *testing.T) {
	_, namespace := start(t)
	c := newCluster(namespace, "dev")
	create(t, c)
	eventually(t, c, "PROVISIONING", func() bool { return c.Status.Phase == v1alpha1.PhaseProvisioning && c.Status.Task != "" })
	if got := operationOf(t, c); got != v1alpha1.OperationCreate {
		t.Fatalf("operation = %s, want Create", got)
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: named(namespace, "dev-workers")}
	eventually(t, group, "its node group", func() bool { return group.Spec.Replicas == 2 })
	finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"endpoint": "https://10.0.0.1:6443", "version": "v1.35.4", "nodes": "2", "readyNodes": "2"})
	eventually(t, c, "RUNNING", func() bool {
		return c.Status.Phase == v1alpha1.PhaseRunning && c.Status.Endpoint == "https://10.0.0.1:6443" && c.Status.NodesSummary == "2/2" &&
			c.Status.ObservedGeneration == c.Generation && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
	})
}

func TestChangesBecomeTheRightOperation(t *testing.T) {
	_, namespace := start(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.Cluster)
		want   v1alpha1.Operation
	}{
		"scale": {func(c *v1alpha1.Cluster) {
			group := c.Spec.NodeGroups["workers"]
			group.Replicas = ptr.To(int32(4))
			c.Spec.NodeGroups["workers"] = group
		}, v1alpha1.OperationScale},
		"upgrade": {func(c *v1alpha1.Cluster) { c.Spec.Version = "v1.36" }, v1alpha1.OperationUpgrade},
		"update":  {func(c *v1alpha1.Cluster) { c.Spec.Host = "dev.example.com" }, v1alpha1.OperationUpdate},
		"repair": {func(c *v1alpha1.Cluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRepair: "now"}
		}, v1alpha1.OperationRepair},
	} {
		t.Run(name, func(t *testing.T) {
			c := running(t, namespace, name)
			before := c.Status.Task
			test.change(c)
			if err := kube.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			eventually(t, c, "another task", func() bool { return c.Status.Task != before })
			if got := operationOf(t, c); got != test.want {
				t.Fatalf("operation = %s, want %s", got, test.want)
			}
			finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"version": "v1.36.3"})
			eventually(t, c, "RUNNING", func() bool { return c.Status.Phase == v1alpha1.PhaseRunning })
			after := c.Status.Task
			eventually(t, c, "rest", func() bool { return c.Status.Task == after && c.Status.ObservedGeneration == c.Generation })
		})
	}
}

// scale is what `kubectl scale nodegroup` does.
func scale(t *testing.T, namespace, group string, replicas int32) {
	t.Helper()
	object := &v1alpha1.NodeGroup{ObjectMeta: named(namespace, group)}
	wanted := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := kube.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(wanted)); err != nil {
		t.Fatal(err)
	}
}

// scaling waits for a task that gives the workers so many nodes.
func scaling(t *testing.T, c *v1alpha1.Cluster, replicas int32) string {
	t.Helper()
	current := &v1alpha1.Task{}
	eventually(t, c, fmt.Sprintf("a task for %d nodes", replicas), func() bool {
		current = task(c.Namespace, c)
		return kube.Get(t.Context(), client.ObjectKeyFromObject(current), current) == nil &&
			current.Spec.Operation == v1alpha1.OperationScale && current.Spec.Replicas["workers"] == replicas
	})
	return current.Name
}

func TestAGroupThatIsScaledByItselfScalesItsCluster(t *testing.T) {
	_, namespace := start(t)
	c := running(t, namespace, "groups")
	seen := map[string]bool{c.Status.Task: true}
	for _, replicas := range []int32{3, 2, 3} { // back to what it was before is another scaling
		scale(t, namespace, "groups-workers", replicas)
		name := scaling(t, c, replicas)
		if seen[name] {
			t.Fatalf("%s scales a second time", name)
		}
		seen[name] = true
		count := fmt.Sprint(replicas)
		finish(t, c, v1alpha1.TaskSucceeded, "", map[string]string{"nodes": count, "readyNodes": count})
		eventually(t, c, "RUNNING", func() bool {
			return c.Status.Phase == v1alpha1.PhaseRunning && c.Status.AppliedReplicas["workers"] == replicas && c.Status.NodesSummary == count+"/"+count
		})
	}
	// Any other change keeps what the group was scaled to.
	change(t, c, func() { c.Spec.Host = "groups.example.com" })
	eventually(t, c, "an update", func() bool { return !seen[c.Status.Task] })
	current := task(namespace, c)
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil || current.Spec.Replicas["workers"] != 3 {
		t.Fatalf("the update is for %v nodes, want 3: %v", current.Spec.Replicas, err)
	}
}

func TestASpecThatNamesANumberFollowsItsGroup(t *testing.T) {
	_, namespace := start(t)
	c := running(t, namespace, "named")
	number := func(n int32) {
		t.Helper()
		change(t, c, func() {
			group := c.Spec.NodeGroups["workers"]
			group.Replicas = &n
			c.Spec.NodeGroups["workers"] = group
		})
	}
	says := func(n int32) {
		t.Helper()
		eventually(t, c, fmt.Sprintf("%d in the spec", n), func() bool {
			named := c.Spec.NodeGroups["workers"].Replicas
			return named != nil && *named == n
		})
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "named-workers"}}
		eventually(t, group, fmt.Sprintf("%d in the group", n), func() bool { return group.Spec.Replicas == n })
	}
	number(3)
	says(3)
	scale(t, namespace, "named-workers", 5)
	says(5)
	number(3)
	says(3)
}

func TestAScalingThatIsOutdatedIsCancelled(t *testing.T) {
	_, namespace := start(t)
	c := running(t, namespace, "again")
	scale(t, namespace, "again-workers", 5)
	first := &v1alpha1.Task{ObjectMeta: named(namespace, scaling(t, c, 5))}
	scale(t, namespace, "again-workers", 3)
	scaling(t, c, 3)
	eventually(t, first, "the first one is cancelled", func() bool { return first.Annotations[v1alpha1.AnnotationCancel] != "" })
}

func TestAFailureSaysWhatToDoAndARepairTriesAnew(t *testing.T) {
	_, namespace := start(t)
	c := newCluster(namespace, "broken")
	create(t, c)
	eventually(t, c, "a task", func() bool { return c.Status.Task != "" })
	finish(t, c, v1alpha1.TaskFailed, "no space left on device", nil)
	eventually(t, c, "FAILED", func() bool { return c.Status.Phase == v1alpha1.PhaseFailed })
	stalled := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "no space left") || !strings.Contains(stalled.Message, "cloud k8s repair broken") {
		t.Fatalf("Stalled = %+v, want the reason and the remedy", stalled)
	}
	first := c.Status.Task
	c.Annotations = map[string]string{v1alpha1.AnnotationRepair: "1"}
	if err := kube.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "another try", func() bool { return c.Status.Task != first })
}

func TestDeletionWaitsForItsTask(t *testing.T) {
	_, namespace := start(t)
	c := running(t, namespace, "going")
	before := c.Status.Task
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "DELETING", func() bool { return c.Status.Phase == v1alpha1.PhaseDeleting && c.Status.Task != before })
	if got := operationOf(t, c); got != v1alpha1.OperationDelete {
		t.Fatalf("operation = %s, want Delete", got)
	}
	finish(t, c, v1alpha1.TaskSucceeded, "", nil)
	gone(t, c)
}

func TestParentsWaitForTheirChildren(t *testing.T) {
	_, namespace := start(t)
	c := running(t, namespace, "child")
	parent := &v1alpha1.Network{ObjectMeta: named(namespace, "default")}
	if err := kube.Delete(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	eventually(t, parent, "a condition that names the cluster", func() bool {
		ready := meta.FindStatusCondition(parent.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonHasChildren && strings.Contains(ready.Message, "child")
	})
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "DELETING", func() bool { return c.Status.Phase == v1alpha1.PhaseDeleting })
	finish(t, c, v1alpha1.TaskSucceeded, "", nil)
	gone(t, c)
	gone(t, parent)
}

func TestAClusterWaitsForItsNetwork(t *testing.T) {
	_, namespace := start(t)
	c := newCluster(namespace, "early")
	c.Spec.Network = "later"
	create(t, c)
	eventually(t, c, "a condition that names the network", func() bool {
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		return c.Status.Phase == v1alpha1.PhasePending && ready != nil && strings.Contains(ready.Message, `"later"`)
	})
	create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "later")})
	eventually(t, c, "a task", func() bool { return c.Status.Task != "" })
}

func gone(t *testing.T, object client.Object) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there: %v", object.GetName(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
