package record_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

func TestStepsRunInOrderAndAreRecorded(t *testing.T) {
	r := newRoom(t)
	var ran []string
	record := func(name string) task.Step {
		return step(name, func(_ context.Context, scope *task.Scope) error {
			ran = append(ran, name)
			scope.SetOutput(name, "value of "+name)
			if scope.Object.GetName() != "dev" || scope.Attempt != 1 || scope.Fence == 0 {
				t.Errorf("%s: unexpected scope %+v", name, scope)
			}
			if name == "b" && scope.Output("a") != "value of a" {
				t.Error("a step does not see an earlier one's output")
			}
			return nil
		})
	}
	w := r.worker([]task.Step{record("a"), record("b"), record("c")})
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate))

	if got := strings.Join(ran, " "); got != "a b c" {
		t.Errorf("steps ran as %s", got)
	}
	var lines []string
	for _, status := range r.record.writes() {
		lines = append(lines, summary(status))
	}
	want := []string{
		"Running 1/3 a=Running/1 b=Pending/0 c=Pending/0",
		"Running 2/3 a=Succeeded/1 b=Running/1 c=Pending/0",
		"Running 3/3 a=Succeeded/1 b=Succeeded/1 c=Running/1",
		"Succeeded 3/3 a=Succeeded/1 b=Succeeded/1 c=Succeeded/1",
	}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("written:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	s := done.Status
	if s.Attempts != 1 || s.Worker != "worker-1" || s.PlannedBy != "v1" || s.StartedAt == nil || s.FinishedAt == nil || s.Error != "" || s.Step != "" {
		t.Errorf("status: %+v", s)
	}
	for _, step := range s.Steps {
		if step.StartedAt == nil || step.FinishedAt == nil {
			t.Errorf("step %s has no times", step.Name)
		}
	}
	if s.Outputs["a"] != "value of a" || len(s.Outputs) != 3 {
		t.Errorf("outputs: %v", s.Outputs)
	}
	if result := w.Handle(t.Context(), task.ItemOf(done)); result.Retry || len(ran) != 3 {
		t.Error("a finished task was done again")
	}
}

func TestAFailedStepIsTriedAgainLaterEachTime(t *testing.T) {
	r := newRoom(t)
	var begun []time.Time
	w := r.worker([]task.Step{step("before", nil), step("flaky", func(context.Context, *task.Scope) error {
		begun = append(begun, time.Now())
		if len(begun) == 2 {
			panic("on purpose")
		}
		if len(begun) < 4 {
			return errors.New("no luck")
		}
		return nil
	})}, func(c *task.Config) { c.Backoff = task.Backoff{First: 300 * time.Millisecond, Max: time.Minute} })
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate))
	for i, least := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond} {
		if gap := begun[i+1].Sub(begun[i]); gap < least-5*time.Millisecond {
			t.Errorf("attempt %d came after %s", i+2, gap)
		}
	}
	if got := summary(done.Status); got != "Succeeded 2/2 before=Succeeded/1 flaky=Succeeded/4" || done.Status.Attempts != 4 || done.Status.Error != "" {
		t.Errorf("status: %s %+v", got, done.Status)
	}
	first := r.record.writes()[2]
	if first.Error != "step flaky: no luck" || first.RetryAt == nil || first.Phase != v1alpha1.TaskRunning || first.Steps[1].Message != "no luck" {
		t.Errorf("after the first failure: %+v", first)
	}
	if second := r.record.writes()[4]; second.Error != "step flaky: panic: on purpose" {
		t.Errorf("after the panic: %+v", second)
	}
}

func TestATaskThatWaitsForItsRetryIsLeftAlone(t *testing.T) {
	r := newRoom(t)
	runs := 0
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { runs++; return errors.New("no luck") })},
		func(c *task.Config) { c.Backoff = task.Backoff{First: time.Minute, Max: time.Minute} })
	cluster := r.cluster("dev")
	item := task.ItemOf(r.task(cluster, v1alpha1.OperationCreate))
	for range 2 { // the second time is the queue's mistake
		result := w.Handle(t.Context(), item)
		if !result.Retry || result.After < 55*time.Second || runs != 1 {
			t.Fatalf("%+v after %d runs", result, runs)
		}
	}
	r.edit(cluster) // but it does not wait to be superseded
	if result := w.Handle(t.Context(), item); result.Retry || runs != 1 {
		t.Errorf("%+v after %d runs", result, runs)
	}
}

func TestAPermanentErrorFailsTheTask(t *testing.T) {
	r := newRoom(t)
	w := r.worker([]task.Step{step("a", nil), step("b", func(context.Context, *task.Scope) error {
		return task.Permanent(errors.New("the account is closed"))
	}), step("c", nil)})
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate))
	if got := summary(done.Status); got != "Failed 2/3 a=Succeeded/1 b=Failed/1 c=Pending/0" {
		t.Error(got)
	}
	if done.Status.Error != "step b: the account is closed" || done.Status.Steps[1].Message != "the account is closed" || done.Status.FinishedAt == nil {
		t.Errorf("%+v", done.Status)
	}
}

func TestAStepMayWaitWithoutFailing(t *testing.T) {
	r := newRoom(t)
	runs := 0
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error {
		if runs++; runs < 3 {
			return task.Wait(100*time.Millisecond, "%d of 3 nodes are ready", runs)
		}
		return nil
	})})
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate))
	if got := summary(done.Status); got != "Succeeded 1/1 a=Succeeded/1" || done.Status.Attempts != 1 {
		t.Errorf("%s, %d attempts", got, done.Status.Attempts)
	}
	waiting := r.record.writes()[1]
	if waiting.Error != "" || waiting.RetryAt == nil || waiting.Steps[0].Message != "1 of 3 nodes are ready" {
		t.Errorf("while it waits: %+v", waiting)
	}
}

func TestANewerGenerationSupersedesAtAStepBoundary(t *testing.T) {
	r := newRoom(t)
	cluster := r.cluster("dev")
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { r.edit(cluster); return nil }),
		step("b", func(context.Context, *task.Scope) error { t.Error("it was not superseded"); return nil })})
	done := r.handle(w, r.task(cluster, v1alpha1.OperationUpdate))
	if got := summary(done.Status); got != "Superseded 1/2 a=Succeeded/1 b=Pending/0" {
		t.Error(got)
	}
	if done.Status.Error != "Cluster dev is asked to be at generation 2, not 1 any more" {
		t.Error(done.Status.Error)
	}
}

// cancelling is a worker of two steps, of which somebody cancels the task in the first.
func (r *room) cancelling(made *v1alpha1.Task, cancel func(context.Context, *task.Scope) error, inFirst func() error) *task.Worker {
	first := step("a", func(ctx context.Context, _ *task.Scope) error {
		made.Annotations = map[string]string{v1alpha1.AnnotationCancel: "true"}
		patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationCancel + `":"true"}}}`)
		r.must(r.Patch(ctx, made.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		return inFirst()
	})
	second := step("b", func(context.Context, *task.Scope) error { r.Error("it was not cancelled"); return nil })
	first.Cancel, second.Cancel = cancel, cancel
	return r.worker([]task.Step{first, second})
}

func TestACancelledTaskEndsWhatGoesOnElsewhere(t *testing.T) {
	r := newRoom(t)
	for name, inFirst := range map[string]func() error{
		"between": func() error { return nil }, "waiting": func() error { return task.Wait(time.Millisecond, "for a cloud") },
		"failing": func() error { return errors.New("no luck") },
	} {
		made := r.task(r.cluster(name), v1alpha1.OperationCreate)
		calls := 0
		w := r.cancelling(made, func(_ context.Context, scope *task.Scope) error {
			switch calls++; calls {
			case 1:
				return task.Wait(10*time.Millisecond, "the deployer comes to its end")
			case 2:
				return errors.New("the API is away")
			}
			return nil
		}, inFirst)
		done := r.handle(w, made)
		if done.Status.Phase != v1alpha1.TaskCancelled || done.Status.Error != "somebody cancelled it" || calls != 3 {
			t.Errorf("%s: %s after %d calls: %s", name, done.Status.Phase, calls, done.Status.Error)
		}
		if done.Status.Steps[1].Phase == v1alpha1.TaskSucceeded {
			t.Errorf("%s: %s", name, summary(done.Status))
		}
	}
}

func TestATaskThatHasNotBegunIsCancelledWithoutAWord(t *testing.T) {
	r := newRoom(t)
	made := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	made.Annotations = map[string]string{v1alpha1.AnnotationCancel: "true"}
	r.must(r.Update(t.Context(), made))
	never := step("a", func(context.Context, *task.Scope) error { t.Error("it was run"); return nil })
	never.Cancel = func(context.Context, *task.Scope) error { t.Error("there was nothing to cancel"); return nil }
	if done := r.handle(r.worker([]task.Step{never}), made); done.Status.Phase != v1alpha1.TaskCancelled {
		t.Errorf("%+v", done.Status)
	}
}

func TestDeletionCancelsEverythingButDeletion(t *testing.T) {
	r := newRoom(t)
	cluster := r.cluster("dev")
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { return r.Delete(t.Context(), cluster) }),
		step("b", func(context.Context, *task.Scope) error { t.Error("it was not cancelled"); return nil })})
	done := r.handle(w, r.task(cluster, v1alpha1.OperationCreate))
	if got := summary(done.Status); got != "Cancelled 1/2 a=Succeeded/1 b=Pending/0" || done.Status.Error != "Cluster dev is being deleted" {
		t.Error(got, done.Status.Error)
	}

	r.reload(cluster)
	w = r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { r.edit(cluster); return nil }), step("b", nil)})
	done = r.handle(w, r.task(cluster, v1alpha1.OperationDelete))
	if got := summary(done.Status); got != "Succeeded 2/2 a=Succeeded/1 b=Succeeded/1" {
		t.Error(got)
	}

	r.reload(cluster)
	cluster.Finalizers = nil
	r.must(r.Update(t.Context(), cluster))
	done = r.handle(w, r.task(cluster, v1alpha1.OperationRepair))
	if done.Status.Phase != v1alpha1.TaskCancelled || done.Status.Error != "Cluster dev is gone" {
		t.Errorf("%+v", done.Status)
	}
}

func TestAnUnknownStoredStepFailsLoudly(t *testing.T) {
	r := newRoom(t)
	interrupted := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	old := r.worker([]task.Step{step("a", nil), step("install-cni", func(context.Context, *task.Scope) error {
		return errors.New("no luck")
	})})
	if result := old.Handle(t.Context(), task.ItemOf(interrupted)); !result.Retry {
		t.Fatal(result)
	}
	time.Sleep(200 * time.Millisecond)
	renamed := r.worker([]task.Step{step("a", nil), step("install-network", nil)}, func(c *task.Config) { c.Version = "v2" })
	done := r.handle(renamed, interrupted)
	if done.Status.Phase != v1alpha1.TaskFailed {
		t.Errorf("%+v", done.Status)
	}
	want := `choose steps: step "install-cni", which version v1 recorded, is unknown to version v2, which knows a, install-network; ` +
		"let version v1 finish the task, or ask for the operation again"
	if done.Status.Error != want {
		t.Errorf("error: %s\nwant:  %s", done.Status.Error, want)
	}
}

func TestAStepThatIsNewIsRunInOldTasksToo(t *testing.T) {
	r := newRoom(t)
	interrupted := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	failing := step("c", func(context.Context, *task.Scope) error { return errors.New("no luck") })
	old := r.worker([]task.Step{step("a", nil), failing})
	if result := old.Handle(t.Context(), task.ItemOf(interrupted)); !result.Retry {
		t.Fatal(result)
	}
	time.Sleep(200 * time.Millisecond)
	w := r.worker([]task.Step{step("a", nil), step("b", nil), step("c", nil)}, func(c *task.Config) { c.Version = "v2" })
	done := r.handle(w, interrupted)
	if got := summary(done.Status); got != "Succeeded 3/3 a=Succeeded/1 b=Succeeded/1 c=Succeeded/2" || done.Status.PlannedBy != "v2" {
		t.Error(got, done.Status.PlannedBy)
	}
}

func TestADeadlineEndsAStepAndFailsTheTask(t *testing.T) {
	r := newRoom(t)
	w := r.worker([]task.Step{step("a", func(ctx context.Context, _ *task.Scope) error {
		<-ctx.Done()
		return errors.New("waited in vain")
	})})
	deadline := func(task *v1alpha1.Task) { task.Spec.Deadline = &metav1.Time{Time: time.Now().Add(2 * time.Second)} }
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate, deadline))
	if done.Status.Phase != v1alpha1.TaskFailed || !strings.Contains(done.Status.Error, "has passed; before that: waited in vain") {
		t.Errorf("%+v", done.Status)
	}

	// One that waits for its retry does not outlive its deadline either.
	w = r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { return errors.New("no luck") })},
		func(c *task.Config) { c.Backoff = task.Backoff{First: time.Hour, Max: time.Hour} })
	began := time.Now()
	done = r.handle(w, r.task(r.cluster("two"), v1alpha1.OperationCreate, deadline))
	if done.Status.Phase != v1alpha1.TaskFailed || !strings.Contains(done.Status.Error, "has passed; before that: step a: no luck") {
		t.Errorf("%+v", done.Status)
	}
	if time.Since(began) > 20*time.Second {
		t.Errorf("it took %s", time.Since(began))
	}
}

func TestReportsAreWrittenOnceASecondAtMost(t *testing.T) {
	r := newRoom(t)
	w := r.worker([]task.Step{step("chatty", func(_ context.Context, scope *task.Scope) error {
		for i := range 60 {
			scope.Report("%d of 60", i+1)
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	})})
	done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate))
	writes := r.record.writes()
	if len(writes) < 3 || len(writes) > 2+3 {
		t.Errorf("%d writes", len(writes))
	}
	for i := 1; i < len(writes)-1; i++ {
		if writes[i].Steps[0].Message == "" {
			t.Errorf("write %d says nothing", i)
		}
		if gap := r.record.times[i].Sub(r.record.times[i-1]); gap < 950*time.Millisecond {
			t.Errorf("two writes within %s", gap)
		}
	}
	if message := done.Status.Steps[0].Message; message != "60 of 60" {
		t.Errorf("the last word is %q", message)
	}
}

func TestResourcesOfUnknownKindFailLoudly(t *testing.T) {
	r := newRoom(t)
	unknown := r.task(r.cluster("dev"), v1alpha1.OperationCreate, func(t *v1alpha1.Task) { t.Spec.Resource.Kind = "Spaceship" })
	done := r.handle(r.worker(nil), unknown)
	if done.Status.Phase != v1alpha1.TaskFailed || !strings.Contains(done.Status.Error, `"Spaceship"`) {
		t.Errorf("%+v", done.Status)
	}
}
