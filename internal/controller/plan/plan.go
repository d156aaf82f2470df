// Package plan has tasks look at infrastructure in clouds that change nothing: because a person asks what a change would do,
// and at an interval, to find out whether somebody else has changed it. What differs it tells in the status of the network,
// cluster or bucket, and asks for a repair, which is a task like any other, where the resource says so.
package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/stack"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Limits are when resources are compared with what is in the cloud, and how often they are repaired.
type Limits struct {
	// Interval between two comparisons, or after a change; none where it is zero. A part of it is added, another one for
	// each resource, so that they spread over the time.
	Interval time.Duration
	// AtOnce is how many comparisons may be under way in the whole installation.
	AtOnce int
	// Attempts is how many automatic repairs in a row are begun before a person is asked.
	Attempts int
}

// Reconciler looks after the resources of one kind.
type Reconciler struct {
	client.Client
	Kind   Kind
	Limits Limits
	Clock  clock.PassiveClock
}

const (
	// patience is how long a look may take, with all attempts.
	patience = 20 * time.Minute
	// crowded is when to try again where too many are looked at already.
	crowded = 20 * time.Second
	// What people ask for goes before what nobody waits for.
	priorityPerson, priorityNobody = 10, -10
)

// LabelDrift is on the tasks that nobody asked for.
const LabelDrift = "plasmacloud.io/drift"

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named("plan-"+strings.ToLower(r.Kind.Name)).For(r.Kind.New()).
		Watches(&v1alpha1.Task{}, stack.Tasks(r.Kind.Name)).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := r.Kind.New()
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := r.Kind.Describe(object)
	if s == nil || !object.GetDeletionTimestamp().IsZero() || s.Observed == 0 {
		return ctrl.Result{}, nil // it is in no cloud, or not yet, or not for long; its change of phase tells
	}
	tasks, err := r.tasks(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	patcher := status.NewPatcher(r.Client, object)
	if err := r.answer(ctx, s, tasks); err != nil {
		return ctrl.Result{}, err
	}
	tell(s, tasks)
	if err := r.repair(ctx, s, tasks); err != nil {
		return ctrl.Result{}, err
	}
	if err := patcher.Patch(ctx); err != nil {
		return ctrl.Result{}, err
	}
	again, err := r.check(ctx, s, tasks)
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *Reconciler) tasks(ctx context.Context, object client.Object) ([]v1alpha1.Task, error) {
	var list v1alpha1.TaskList
	err := r.List(ctx, &list, client.InNamespace(object.GetNamespace()), client.MatchingFields{status.TasksByResource: string(object.GetUID())})
	slices.SortStableFunc(list.Items, func(a, b v1alpha1.Task) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items, err
}

// answer makes the task that a person has asked for.
func (r *Reconciler) answer(ctx context.Context, s *Subject, tasks []v1alpha1.Task) error {
	text := s.Object.GetAnnotations()[v1alpha1.AnnotationPlan]
	request, valid := v1alpha1.ParsePlanRequest(text)
	at := request.At.UTC().Format(time.RFC3339Nano)
	if !valid || at == *s.Planned {
		return nil
	}
	task := r.task(s, "plan-"+short(text))
	task.Annotations = map[string]string{v1alpha1.AnnotationPlan: at}
	task.Spec.Change, task.Spec.Priority = request.Change, priorityPerson
	if !slices.ContainsFunc(tasks, func(t v1alpha1.Task) bool { return t.Name == task.Name }) {
		if err := r.create(ctx, s, task); err != nil {
			return err
		}
	}
	*s.Planned = at
	return nil
}

// check has the resource compared with what is in the cloud when it is time to, and tells when it will be.
func (r *Reconciler) check(ctx context.Context, s *Subject, tasks []v1alpha1.Task) (again time.Duration, err error) {
	if r.Limits.Interval == 0 || !s.Rests || slices.ContainsFunc(tasks, func(t v1alpha1.Task) bool { return !t.Status.Phase.Finished() }) {
		return 0, nil // what happens next wakes it
	}
	now := r.Clock.Now()
	due := lastLook(s, tasks).Add(r.Limits.Interval + spread(s.Object, r.Limits.Interval/4))
	if now.Before(due) {
		return due.Sub(now), nil
	}
	var under v1alpha1.TaskList
	if err := r.List(ctx, &under, client.HasLabels{LabelDrift}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	atOnce := 0
	for i := range under.Items {
		if !under.Items[i].Status.Phase.Finished() {
			atOnce++
		}
	}
	if atOnce >= max(r.Limits.AtOnce, 1) {
		return crowded + spread(s.Object, crowded), nil
	}
	task := r.task(s, fmt.Sprintf("drift-%d", due.Unix())) // the same for as long as it is not known
	task.Labels[LabelDrift] = "check"
	task.Spec.Automatic, task.Spec.Priority, task.Spec.Reason = true, priorityNobody, "is it still what was asked for?"
	if err := r.create(ctx, s, task); err != nil {
		return 0, err
	}
	return r.Limits.Interval, r.clear(ctx, tasks)
}

// clear removes earlier comparisons: the last one says enough.
func (r *Reconciler) clear(ctx context.Context, tasks []v1alpha1.Task) error {
	for i := range tasks {
		if _, ours := tasks[i].Labels[LabelDrift]; !ours || !tasks[i].Status.Phase.Finished() {
			continue
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, &tasks[i])); err != nil {
			return fmt.Errorf("remove task %s: %w", tasks[i].Name, err)
		}
	}
	return nil
}

// lastLook is when what is in the cloud was last known: by a comparison, whatever came of it, or by a change.
func lastLook(s *Subject, tasks []v1alpha1.Task) time.Time {
	last := s.Object.GetCreationTimestamp().Time
	if *s.Drift != nil {
		last = later(last, (*s.Drift).CheckedAt.Time)
	}
	for i := range tasks {
		if finished := tasks[i].Status.FinishedAt; finished != nil {
			last = later(last, finished.Time)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// task is one that looks.
func (r *Reconciler) task(s *Subject, what string) *v1alpha1.Task {
	kind := strings.ToLower(r.Kind.Name)
	labels := map[string]string{v1alpha1.LabelResource: kind}
	if kind == "cluster" {
		labels[v1alpha1.LabelCluster] = s.Object.GetName()
	}
	return &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s-%s-%s-%s", kind, s.Object.GetName(), what, short(string(s.Object.GetUID()))),
			Namespace: s.Object.GetNamespace(), Labels: labels,
		},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: r.Kind.Name, Name: s.Object.GetName(), UID: string(s.Object.GetUID())},
			Operation: v1alpha1.OperationPlan, Generation: s.Object.GetGeneration(), Replicas: s.Replicas,
			Deadline: &metav1.Time{Time: r.Clock.Now().Add(patience)},
		},
	}
}

func (r *Reconciler) create(ctx context.Context, s *Subject, task *v1alpha1.Task) error {
	if err := controllerutil.SetControllerReference(s.Object, task, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, task); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create task: %w", err)
	}
	return nil
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// spread is a part of a time that is another one for each resource, and always the same for one.
func spread(object client.Object, most time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(object.GetUID()))
	return most * time.Duration(sum[0]) / 256
}
