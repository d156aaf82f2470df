package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

var start = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// world is buckets in a cloud, and a clock.
type world struct {
	*Reconciler
	t     *testing.T
	clock *clocktesting.FakePassiveClock
}

func newWorld(t *testing.T, buckets ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	building := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Task{}, &v1alpha1.Bucket{}).
		WithIndex(&v1alpha1.Task{}, status.TasksByResource, func(object client.Object) []string {
			return []string{object.(*v1alpha1.Task).Spec.Resource.UID}
		})
	for _, name := range buckets {
		made := &v1alpha1.Bucket{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "project-shop", UID: types.UID("uid of " + name), Generation: 1, CreationTimestamp: metav1.NewTime(start),
		}}
		made.Status.Phase, made.Status.ObservedGeneration, made.Status.InfraVersion = v1alpha1.PhaseRunning, 1, "v1.0.0"
		building = building.WithObjects(made)
	}
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(start)}
	w.Reconciler = &Reconciler{Client: building.Build(), Kind: Kinds()[2], Limits: Limits{Interval: time.Hour, AtOnce: 2, Attempts: 2}, Clock: w.clock}
	return w
}

func (w *world) look(name string) time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "project-shop", Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (w *world) bucket(name string) *v1alpha1.Bucket {
	w.t.Helper()
	bucket := &v1alpha1.Bucket{}
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "project-shop", Name: name}, bucket); err != nil {
		w.t.Fatal(err)
	}
	return bucket
}

func (w *world) edit(name string, change func(*v1alpha1.Bucket)) {
	w.t.Helper()
	bucket := w.bucket(name)
	change(bucket)
	changed := bucket.Status // which an update leaves out
	if err := w.Update(w.t.Context(), bucket); err != nil {
		w.t.Fatal(err)
	}
	bucket.Status = changed
	if err := w.Status().Update(w.t.Context(), bucket); err != nil {
		w.t.Fatal(err)
	}
}

// all are the tasks of a bucket.
func (w *world) all(name string) []v1alpha1.Task {
	w.t.Helper()
	var list v1alpha1.TaskList
	if err := w.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(t v1alpha1.Task) bool { return t.Spec.Resource.Name != name })
}

// open is the only task that is not finished.
func (w *world) open(name string) *v1alpha1.Task {
	w.t.Helper()
	open := slices.DeleteFunc(w.all(name), func(t v1alpha1.Task) bool { return t.Status.Phase.Finished() })
	if len(open) != 1 {
		w.t.Fatalf("%d tasks are not finished", len(open))
	}
	return &open[0]
}

// finish ends a task; as a plan it has found so many things to change.
func (w *world) finish(task *v1alpha1.Task, phase v1alpha1.TaskPhase, changes int, refused string) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	result := v1alpha1.PlanResult{Refused: refused}
	for i := range changes {
		result.Changes = append(result.Changes, v1alpha1.PlannedChange{Address: fmt.Sprintf("google_storage_bucket.this[%d]", i)})
	}
	text, err := json.Marshal(result)
	if err != nil {
		w.t.Fatal(err)
	}
	task.Status.Phase, task.Status.FinishedAt = phase, &metav1.Time{Time: w.clock.Now()}
	if phase == v1alpha1.TaskSucceeded && task.Spec.Operation == v1alpha1.OperationPlan {
		task.Status.Outputs = map[string]string{v1alpha1.OutputPlanResult: string(text)}
	} else {
		task.Status.Error = "it went wrong"
	}
	if err := w.Status().Update(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
}

// check lets time go by until the bucket is compared, and has the comparison find something.
func (w *world) check(name string, changes int, refused string) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.look(name)
	w.finish(w.open(name), v1alpha1.TaskSucceeded, changes, refused)
	w.look(name)
}

func TestAPersonAsksForAPlan(t *testing.T) {
	w := newWorld(t, "assets")
	request := v1alpha1.PlanRequest{At: start, Change: `{"versioning": false}`}
	w.edit("assets", func(b *v1alpha1.Bucket) { b.Annotations = map[string]string{v1alpha1.AnnotationPlan: request.String()} })
	for range 3 {
		w.look("assets")
	}
	task := w.open("assets")
	if task.Spec.Operation != v1alpha1.OperationPlan || task.Spec.Change != request.Change || task.Spec.Automatic || task.Spec.Deadline == nil ||
		task.Annotations[v1alpha1.AnnotationPlan] != "2026-11-15T12:00:00Z" {
		t.Errorf("%+v", task.Spec)
	}
	w.finish(task, v1alpha1.TaskSucceeded, 1, "")
	w.look("assets")
	if drift := w.bucket("assets").Status.Drift; drift != nil {
		t.Errorf("what a change would do counts as drift: %+v", drift)
	}
	if err := w.Delete(t.Context(), task); err != nil { // it is old
		t.Fatal(err)
	}
	if w.look("assets"); len(w.all("assets")) > 0 {
		t.Error("an old request is answered again")
	}
}

func TestDriftIsLookedForAtAnInterval(t *testing.T) {
	w := newWorld(t, "assets")
	if again := w.look("assets"); len(w.all("assets")) > 0 || again < time.Hour || again > 75*time.Minute {
		t.Errorf("looked at once, or again after %s", again)
	}
	w.check("assets", 2, "")
	drift := w.bucket("assets").Status.Drift
	if drift == nil || len(drift.Addresses) != 2 || drift.Addresses[0] != "google_storage_bucket.this[0]" {
		t.Fatalf("%+v", drift)
	}
	if w.bucket("assets").Annotations[v1alpha1.AnnotationRepair] != "" {
		t.Error("a repair was asked for that nobody wants")
	}
	// The next one takes the place of the one before, and finds that all is well.
	w.check("assets", 0, "")
	if drift := w.bucket("assets").Status.Drift; len(drift.Addresses) > 0 || len(w.all("assets")) != 1 {
		t.Errorf("%+v, %d tasks", drift, len(w.all("assets")))
	}
}

func TestOnlySoManyAreLookedAtAtOnce(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.clock.SetTime(start.Add(2 * time.Hour))
	w.look("a")
	w.look("b")
	if again := w.look("c"); len(w.all("c")) > 0 || again < crowded || again > 2*crowded {
		t.Errorf("%d tasks, again after %s", len(w.all("c")), again)
	}
	w.finish(w.open("a"), v1alpha1.TaskSucceeded, 0, "")
	if w.look("c"); len(w.all("c")) != 1 {
		t.Error("it is not its turn yet")
	}
}

func TestWhatIsBeingChangedIsNotLookedAt(t *testing.T) {
	w := newWorld(t, "assets")
	w.clock.SetTime(start.Add(2 * time.Hour))
	w.edit("assets", func(b *v1alpha1.Bucket) { b.Status.Phase = v1alpha1.PhaseUpdating })
	if w.look("assets"); len(w.all("assets")) > 0 {
		t.Error("looked at what is being changed")
	}
	w.Limits.Interval = 0
	w.edit("assets", func(b *v1alpha1.Bucket) { b.Status.Phase = v1alpha1.PhaseRunning })
	if again := w.look("assets"); len(w.all("assets")) > 0 || again != 0 {
		t.Error("looked though nobody wants that")
	}
}

// repaired has the repair that was asked for done by a task.
func (w *world) repaired(name string) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	request := w.bucket(name).Annotations[v1alpha1.AnnotationRepair]
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: "repair-" + short(request), Namespace: "project-shop", CreationTimestamp: metav1.NewTime(w.clock.Now())},
		Spec:       v1alpha1.TaskSpec{Resource: v1alpha1.ResourceReference{Kind: "Bucket", Name: name, UID: "uid of " + name}, Operation: v1alpha1.OperationRepair, Generation: 1},
	}
	status.DescribeRepair(&task.Spec, request)
	if err := w.Create(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
	w.finish(task, v1alpha1.TaskSucceeded, 0, "")
	w.edit(name, func(b *v1alpha1.Bucket) { b.Status.Repaired = request })
	w.look(name)
}

func TestDriftIsRepairedWhereTheResourceSaysSo(t *testing.T) {
	w := newWorld(t, "assets")
	w.edit("assets", func(b *v1alpha1.Bucket) { b.Spec.RepairDrift = true })
	asked := map[string]bool{}
	for range 4 { // somebody changes it again and again
		w.check("assets", 1, "")
		request := w.bucket("assets").Annotations[v1alpha1.AnnotationRepair]
		if parsed := v1alpha1.ParseRepairRequest(request); !parsed.Automatic || !strings.Contains(parsed.Reason, "google_storage_bucket.this[0]") {
			t.Fatalf("asked for %q", request)
		}
		if w.look("assets"); w.bucket("assets").Annotations[v1alpha1.AnnotationRepair] != request {
			t.Error("asked for twice")
		}
		if !asked[request] {
			w.repaired("assets")
			if drift := w.bucket("assets").Status.Drift; len(drift.Addresses) > 0 {
				t.Errorf("after its repair %+v", drift)
			}
		}
		asked[request] = true
	}
	if len(asked) != 2 || w.bucket("assets").Status.Drift.Repairs != 2 {
		t.Errorf("%d repairs, want 2: %+v", len(asked), w.bucket("assets").Status.Drift)
	}
	w.check("assets", 0, "")
	if drift := w.bucket("assets").Status.Drift; drift.Repairs != 0 {
		t.Errorf("%+v", drift)
	}
}

func TestWhatWouldLoseSomethingIsNotRepairedByItself(t *testing.T) {
	w := newWorld(t, "assets")
	w.edit("assets", func(b *v1alpha1.Bucket) { b.Spec.RepairDrift = true })
	w.check("assets", 1, "data is lost")
	bucket := w.bucket("assets")
	if bucket.Annotations[v1alpha1.AnnotationRepair] != "" || bucket.Status.Drift.Refused != "data is lost" {
		t.Errorf("%v %+v", bucket.Annotations, bucket.Status.Drift)
	}
}

func TestALookThatFailedIsTold(t *testing.T) {
	w := newWorld(t, "assets")
	w.check("assets", 1, "")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.look("assets")
	w.finish(w.open("assets"), v1alpha1.TaskFailed, 0, "")
	again := w.look("assets")
	drift := w.bucket("assets").Status.Drift
	if drift.Error != "it went wrong" || len(drift.Addresses) != 1 || again < time.Hour-time.Minute {
		t.Errorf("%+v, again after %s", drift, again)
	}
}
