package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// engine plays the platform's part in a test.
type engine struct {
	*world
	task *v1alpha1.Task
}

// begin makes the task that an operation on a cluster needs.
func (e *engine) begin(cluster string, uid string, operation v1alpha1.Operation, generation int64, steps ...string) {
	e.task = &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: cluster + "-" + strings.ToLower(string(operation)), Namespace: "project-web"},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: cluster, UID: uid},
			Operation: operation, Generation: generation,
		},
	}
	e.must(e.api.Create(e.t.Context(), e.task))
	e.task.Status.Phase = v1alpha1.TaskRunning
	for _, step := range steps {
		e.task.Status.Steps = append(e.task.Status.Steps, v1alpha1.StepStatus{Name: step, Phase: v1alpha1.TaskPending})
	}
	e.write()
}

func (e *engine) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Error(err)
	}
}

func (e *engine) write() { e.must(e.api.Status().Update(e.t.Context(), e.task)) }

// step is what a step is now.
func (e *engine) step(n int, phase v1alpha1.TaskPhase, message string) {
	step := &e.task.Status.Steps[n]
	started, finished := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Second))
	step.StartedAt, step.FinishedAt, step.Phase, step.Message = &started, nil, phase, message
	if phase == v1alpha1.TaskRunning {
		step.Attempts++
	} else {
		step.FinishedAt = &finished
	}
	e.task.Status.Step = step.Name
	e.write()
}

// end ends the task.
func (e *engine) end(phase v1alpha1.TaskPhase, message string) {
	e.task.Status.Phase, e.task.Status.Error = phase, message
	e.write()
}

// settle writes a cluster's status.
func (e *engine) settle(name string, change func(*v1alpha1.ClusterStatus)) {
	cluster := &v1alpha1.Cluster{}
	e.must(e.api.Get(e.t.Context(), client.ObjectKey{Namespace: "project-web", Name: name}, cluster))
	change(&cluster.Status)
	e.must(e.api.Status().Update(e.t.Context(), cluster))
}

// play runs a command while the platform does its part, and compares what was printed.
func (w *world) play(args string, code int, want string, part func(e *engine, printed func(string))) {
	w.t.Helper()
	var out, err buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(&engine{world: w}, func(text string) {
			w.t.Helper()
			w.eventually("\""+text+"\" but \n"+err.String(), func() bool { return strings.Contains(err.String(), text) })
		})
	}()
	if have := w.start(w.t.Context(), "", &out, &err, strings.Fields(args)...); have != code {
		w.t.Errorf("%s ended with %d, not %d", args, have, code)
	}
	<-done
	if have := out.String() + err.String(); have != want {
		w.t.Errorf("%s:\n%s\ninstead of\n%s", args, have, want)
	}
}

func TestWaitForACluster(t *testing.T) {
	w := newWorld(t)
	w.play("k8s create --name new --vpc default --workers 2 --wait -o name", 0, `new
create cluster new
  there is no network "default" yet
  1/2 certificates: running
  1/2 certificates: done 1s
  2/2 nodes: running
  2/2 nodes: running: 1 of 2 is ready
  2/2 nodes: running (attempt 2): 1 of 2 is ready
  2/2 nodes: done 1s
create cluster new: done in 0s
`, func(e *engine, printed func(string)) {
		e.watched(2)
		e.settle("new", func(s *v1alpha1.ClusterStatus) {
			s.Phase = v1alpha1.PhasePending
			s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Waiting", Message: `there is no network "default" yet`}}
		})
		printed("there is no network")
		e.begin("new", "uid-new", v1alpha1.OperationCreate, 1, "certificates", "nodes")
		e.step(0, v1alpha1.TaskRunning, "")
		e.step(0, v1alpha1.TaskSucceeded, "")
		e.step(1, v1alpha1.TaskRunning, "")
		e.task.Status.Steps[1].Message = "1 of 2 is ready"
		e.write()
		e.step(1, v1alpha1.TaskRunning, "1 of 2 is ready")
		e.step(1, v1alpha1.TaskSucceeded, "")
		printed("nodes: done")
		e.end(v1alpha1.TaskSucceeded, "")
		e.settle("new", func(s *v1alpha1.ClusterStatus) { s.Phase, s.ObservedGeneration = v1alpha1.PhaseRunning, 1 })
	})
}

func TestWaitEndsWithTheTask(t *testing.T) {
	w := newWorld(t)
	w.play("k8s create new --wait", 1, `create cluster new
  1/1 machines: running
  1/1 machines: failed: the disk is full
cloud: create cluster new: failed at step machines: the disk is full
hint: `+"`cloud task show new-create` tells more; once it is mended, `cloud k8s repair new` tries again\n",
		func(e *engine, printed func(string)) {
			e.watched(2)
			e.begin("new", "uid-new", v1alpha1.OperationCreate, 1, "machines")
			e.step(0, v1alpha1.TaskRunning, "")
			e.step(0, v1alpha1.TaskFailed, "the disk is full")
			printed("failed: the disk")
			e.end(v1alpha1.TaskFailed, "the disk is full")
		})
}

func TestWaitEndsWithTheTime(t *testing.T) {
	w := newWorld(t)
	w.play("k8s create new --wait --timeout 400ms", 5, `create cluster new
  1/2 machines: running
  tries again after: no answer
cloud: stopped waiting: the time is up, and cluster new is provisioning (0/2 machines)
hint: it goes on without this command; `+"`cloud task watch new-create` follows it\n",
		func(e *engine, _ func(string)) {
			e.watched(2)
			e.settle("new", func(s *v1alpha1.ClusterStatus) { s.Phase = v1alpha1.PhaseProvisioning })
			e.begin("new", "uid-new", v1alpha1.OperationCreate, 1, "machines", "nodes")
			e.task.Status.Progress = "0/2"
			e.step(0, v1alpha1.TaskRunning, "")
			e.end(v1alpha1.TaskRunning, "no answer")
		})
}

func TestWaitIsInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		w.watched(2)
		interrupt()
	}()
	var out, err buffer
	if code := w.start(ctx, "", &out, &err, "k8s", "create", "new", "--wait"); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(err.String(), "stopped waiting: cluster new is waiting\nhint: it goes on without this command") {
		t.Error(err.String())
	}
}

func TestWaitForAScaling(t *testing.T) {
	w := newWorld(t)
	w.play("k8s scale dev-cluster --replicas 3 --wait", 0, `node group workers of cluster dev-cluster shall have 3 nodes
scale cluster dev-cluster
  1/1 machines: done 1s
scale cluster dev-cluster: done in 0s
`, func(e *engine, printed func(string)) {
		e.watched(2)
		e.begin("dev-cluster", "c1", v1alpha1.OperationScale, 2, "machines")
		e.step(0, v1alpha1.TaskSucceeded, "")
		printed("machines: done")
		e.settle("dev-cluster", func(s *v1alpha1.ClusterStatus) { s.ObservedGeneration = 2 })
	})
}

func TestWaitForARepair(t *testing.T) {
	w := newWorld(t)
	w.play("k8s repair dev-cluster --wait", 0, `repair of cluster dev-cluster is asked for
repair cluster dev-cluster
  1/1 look: done 1s
repair cluster dev-cluster: done in 0s
`, func(e *engine, printed func(string)) {
		e.watched(2)
		e.begin("dev-cluster", "c1", v1alpha1.OperationRepair, 1, "look")
		e.step(0, v1alpha1.TaskSucceeded, "")
		printed("look: done")
		e.settle("dev-cluster", func(s *v1alpha1.ClusterStatus) { s.Repaired = noon.Format(time.RFC3339Nano) })
	})
}

func TestWaitForADeletion(t *testing.T) {
	w := newWorld(t)
	keep := &v1alpha1.Cluster{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "dev-cluster"}, keep); err != nil {
		t.Fatal(err)
	}
	keep.Finalizers = []string{v1alpha1.Finalizer}
	if err := w.api.Update(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	w.play("k8s delete dev-cluster --wait", 0, `delete cluster dev-cluster
  1/1 machines: done 1s
delete cluster dev-cluster: done in 0s
`, func(e *engine, printed func(string)) {
		e.watched(2)
		e.begin("dev-cluster", "c1", v1alpha1.OperationDelete, 1, "machines")
		e.step(0, v1alpha1.TaskSucceeded, "")
		printed("machines: done")
		cluster := &v1alpha1.Cluster{}
		e.must(e.api.Get(t.Context(), client.ObjectKeyFromObject(keep), cluster))
		cluster.Finalizers = nil
		e.must(e.api.Update(t.Context(), cluster))
	})
	if have := w.run("vpc", "delete", "default", "--wait"); have.code != 0 || have.err != "delete vpc default\ndelete vpc default: done in 0s\n" {
		t.Errorf("what is gone at once: %+v", have)
	}
}

func TestWaitForAProject(t *testing.T) {
	w := newWorld(t)
	w.play("project create blog --wait", 0, "create project blog\ncreate project blog: done in 0s\n", func(e *engine, _ func(string)) {
		e.watched(1)
		project := &v1alpha1.Project{}
		e.must(e.api.Get(t.Context(), client.ObjectKey{Name: "blog"}, project))
		project.Status.Phase, project.Status.ObservedGeneration = v1alpha1.PhaseRunning, 1
		e.must(e.api.Update(t.Context(), project))
	})
}

func TestWatchATask(t *testing.T) {
	w := newWorld(t)
	w.play("task watch big-create-1", 1, `create cluster big
  1/3 certificates: done 1s
  2/3 control-plane: running (attempt 3): image is missing
  tries again after: image is missing
  2/3 control-plane: failed: image is missing
cloud: task big-create-1 failed at step control-plane: image is missing
`, func(e *engine, _ func(string)) {
		e.watched(1)
		e.task = &v1alpha1.Task{}
		e.must(e.api.Get(t.Context(), client.ObjectKey{Namespace: "project-web", Name: "big-create-1"}, e.task))
		e.task.Status.Phase = v1alpha1.TaskFailed
		e.step(1, v1alpha1.TaskFailed, "image is missing")
	})
	if have := w.run("task", "watch", "old-delete-3", "--timeout", "50ms"); have.code != 5 || !strings.Contains(have.err, "the time is up, and task old-delete-3 is still running") {
		t.Errorf("%+v", have)
	}
}
