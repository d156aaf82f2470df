package stack

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// world is a bucket, and the keeper of it.
type world struct {
	*Keeper
	t      *testing.T
	bucket *v1alpha1.Bucket
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Task{}).
		WithIndex(&v1alpha1.Task{}, status.TasksByResource, func(object client.Object) []string {
			return []string{object.(*v1alpha1.Task).Spec.Resource.UID}
		}).Build()
	return &world{
		t: t, Keeper: &Keeper{Client: api, Recorder: events.NewFakeRecorder(100)},
		bucket: &v1alpha1.Bucket{ObjectMeta: metav1.ObjectMeta{Name: "assets", Namespace: "project-shop", UID: "uid", Generation: 1}},
	}
}

func (w *world) keep() (gone bool) {
	w.t.Helper()
	s := &w.bucket.Status
	gone, err := w.Keep(w.t.Context(), Resource{
		Object: w.bucket, Kind: "Bucket", Stack: &s.StackStatus, Phase: &s.Phase, Observed: &s.ObservedGeneration, Conditions: &s.Conditions,
		Adopt: func(outputs map[string]string) { s.ID = outputs[provisioner.OutputID] },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return gone
}

// task is the latest, by its operation.
func (w *world) task(operation v1alpha1.Operation) *v1alpha1.Task {
	w.t.Helper()
	var tasks v1alpha1.TaskList
	if err := w.List(w.t.Context(), &tasks); err != nil {
		w.t.Fatal(err)
	}
	for i := range tasks.Items {
		if tasks.Items[i].Spec.Operation == operation && tasks.Items[i].Spec.Generation == w.bucket.Generation {
			return &tasks.Items[i]
		}
	}
	w.t.Fatalf("there is no task to %s", operation)
	return nil
}

// becomes writes what became of a task.
func (w *world) becomes(operation v1alpha1.Operation, become v1alpha1.TaskStatus) {
	w.t.Helper()
	task := w.task(operation)
	task.Status = become
	if err := w.Status().Update(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
	w.keep()
}

func (w *world) expect(phase v1alpha1.Phase, observed int64) {
	w.t.Helper()
	if s := w.bucket.Status; s.Phase != phase || s.ObservedGeneration != observed {
		w.t.Errorf("it is %s at generation %d, want %s at %d", s.Phase, s.ObservedGeneration, phase, observed)
	}
}

func TestAResourceIsBroughtToItsSpec(t *testing.T) {
	w := newWorld(t)
	w.keep()
	w.keep()
	w.expect(v1alpha1.PhaseProvisioning, 0)
	w.becomes(v1alpha1.OperationCreate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning, Progress: "2/2", Step: "apply"})
	if w.bucket.Status.Progress != "2/2 apply" {
		t.Errorf("progress is %q", w.bucket.Status.Progress)
	}
	w.becomes(v1alpha1.OperationCreate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, Outputs: map[string]string{provisioner.OutputID: "assets-1", provisioner.OutputInfraVersion: "v1.0.0"}})
	w.expect(v1alpha1.PhaseRunning, 1)
	if s := w.bucket.Status; s.ID != "assets-1" || s.InfraVersion != "v1.0.0" || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", s)
	}
	w.bucket.Generation = 2
	w.keep()
	w.expect(v1alpha1.PhaseUpdating, 1)
	w.becomes(v1alpha1.OperationUpdate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded})
	w.expect(v1alpha1.PhaseRunning, 2)
}

func TestAFailureIsToldAndTriedAgainWhenSomebodyAsks(t *testing.T) {
	w := newWorld(t)
	w.keep()
	w.becomes(v1alpha1.OperationCreate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskFailed, Step: "plan", Error: "no quota"})
	w.expect(v1alpha1.PhaseFailed, 0)
	stalled := meta.FindStatusCondition(w.bucket.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "create failed at step plan: no quota") {
		t.Errorf("%+v", stalled)
	}
	w.bucket.Annotations = map[string]string{v1alpha1.AnnotationRepair: "now"}
	w.keep()
	var tasks v1alpha1.TaskList
	if err := w.List(t.Context(), &tasks); err != nil || len(tasks.Items) != 2 {
		t.Errorf("%d tasks, %v", len(tasks.Items), err)
	}
}

func TestDeletionWaitsForItsTask(t *testing.T) {
	w := newWorld(t)
	now := metav1.NewTime(time.Now())
	w.bucket.DeletionTimestamp = &now
	if !w.keep() {
		t.Error("of what was never begun something is left")
	}
	w.bucket.Status.ObservedGeneration = 1
	if w.keep() {
		t.Error("it is gone before its task")
	}
	w.expect(v1alpha1.PhaseDeleting, 1)
	task := w.task(v1alpha1.OperationDelete)
	task.Status.Phase = v1alpha1.TaskSucceeded
	if err := w.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if !w.keep() {
		t.Error("it stays after its task")
	}
}

func TestWhatIsLeftInTheCloudIsKeptOnRecord(t *testing.T) {
	w := newWorld(t)
	now := metav1.NewTime(time.Now())
	w.bucket.DeletionTimestamp, w.bucket.Status.ObservedGeneration = &now, 1
	w.keep()
	task := w.task(v1alpha1.OperationDelete)
	task.Status = v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, Outputs: map[string]string{provisioner.OutputRemains: "google_storage_bucket.this assets-1"}}
	if err := w.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	recorder, ok := w.Recorder.(*events.FakeRecorder)
	if !ok {
		t.Fatal("another recorder")
	}
	for len(recorder.Events) > 0 {
		<-recorder.Events
	}
	for range 2 {
		if !w.keep() {
			t.Error("it stays after its task")
		}
	}
	if kept := w.task(v1alpha1.OperationDelete); len(kept.OwnerReferences) != 0 {
		t.Errorf("the task goes with its resource: %v", kept.OwnerReferences)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.Contains(event, "1 resources are left in the cloud") || !strings.Contains(event, "google_storage_bucket.this assets-1") {
		t.Errorf("%s", event)
	}
}

func TestALookSaysNothingOfHowAResourceFares(t *testing.T) {
	w := newWorld(t)
	w.keep()
	w.becomes(v1alpha1.OperationCreate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded})
	look := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: "look", Namespace: "project-shop", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))},
		Spec:       v1alpha1.TaskSpec{Resource: v1alpha1.ResourceReference{Kind: "Bucket", Name: "assets", UID: "uid"}, Operation: v1alpha1.OperationPlan, Generation: 1},
		Status:     v1alpha1.TaskStatus{Phase: v1alpha1.TaskFailed},
	}
	if err := w.Create(t.Context(), look); err != nil {
		t.Fatal(err)
	}
	w.bucket.Status.Drift = &v1alpha1.Drift{Addresses: []string{"google_storage_bucket.this"}}
	w.keep()
	w.expect(v1alpha1.PhaseRunning, 1)
	if drifted := meta.FindStatusCondition(w.bucket.Status.Conditions, v1alpha1.ConditionDrifted); drifted == nil || drifted.Status != metav1.ConditionTrue || !strings.Contains(drifted.Message, "cloud bucket repair assets") {
		t.Errorf("%+v", drifted)
	}
}

func TestARepairTellsWhoAskedForIt(t *testing.T) {
	w := newWorld(t)
	w.keep()
	w.becomes(v1alpha1.OperationCreate, v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded})
	w.bucket.Annotations = map[string]string{v1alpha1.AnnotationRepair: v1alpha1.RepairRequest{At: time.Now(), Automatic: true, Reason: "it drifted"}.String()}
	w.keep()
	if task := w.task(v1alpha1.OperationRepair); !task.Spec.Automatic || task.Spec.Reason != "it drifted" || task.Spec.Deadline == nil {
		t.Errorf("%+v", task.Spec)
	}
}
