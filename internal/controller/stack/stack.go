// Package stack is what controllers of resources have in common that are one piece of infrastructure in a cloud, networks
// and buckets: it makes the task that brings one to its spec, and tells in the status how that fares. Clusters, which have
// more operations than these, see to it themselves.
package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// nouns are what the kinds are called on the command line.
var nouns = map[string]string{"Network": "vpc", "Bucket": "bucket"}

// maxNote is how long the note of an event may be.
const maxNote = 1024

// Resource is a network or a bucket, and the parts of its status that are kept here.
type Resource struct {
	client.Object
	Kind       string
	Stack      *v1alpha1.StackStatus
	Phase      *v1alpha1.Phase
	Observed   *int64
	Conditions *[]metav1.Condition
	// Adopt takes over what a task has put out.
	Adopt func(outputs map[string]string)
}

// Keeper makes the tasks. It needs the index status.TasksByResource.
type Keeper struct {
	client.Client
	Recorder events.EventRecorder
}

// Tasks wakes the resource of a kind when something becomes of one of its tasks.
func Tasks(kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		task, ok := object.(*v1alpha1.Task)
		if !ok || task.Spec.Resource.Kind != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: task.Namespace, Name: task.Spec.Resource.Name}}}
	})
}

// Keep makes the task that is missing, and writes down how they fare. It is true when nothing is left of a resource that is
// being deleted.
func (k *Keeper) Keep(ctx context.Context, r Resource) (gone bool, err error) {
	var list v1alpha1.TaskList
	if err := k.List(ctx, &list, client.InNamespace(r.GetNamespace()), client.MatchingFields{status.TasksByResource: string(r.GetUID())}); err != nil {
		return false, err
	}
	tasks := status.Changing(list.Items)
	slices.SortFunc(tasks, func(a, b v1alpha1.Task) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return int(a.Spec.Generation - b.Spec.Generation)
	})
	deleted := !r.GetDeletionTimestamp().IsZero()
	for i := range tasks {
		if deleted && tasks[i].Spec.Operation == v1alpha1.OperationDelete && tasks[i].Status.Phase == v1alpha1.TaskSucceeded {
			return true, Bequeath(ctx, k.Client, k.Recorder, r.Object, tasks)
		}
	}
	if deleted && len(tasks) == 0 && *r.Observed == 0 {
		return true, nil // nothing was ever begun
	}
	task, err := k.decide(ctx, r, tasks)
	if err != nil {
		return false, err
	}
	if task != nil {
		tasks = append(tasks, *task)
	}
	k.mirror(r, tasks)
	return false, nil
}

// decide makes the task that brings the resource to its spec, where there is none yet.
func (k *Keeper) decide(ctx context.Context, r Resource, tasks []v1alpha1.Task) (*v1alpha1.Task, error) {
	operation, priority := v1alpha1.OperationUpdate, int32(0)
	repair := r.GetAnnotations()[v1alpha1.AnnotationRepair]
	switch {
	case !r.GetDeletionTimestamp().IsZero():
		operation, priority = v1alpha1.OperationDelete, 30
	case *r.Observed == 0:
		operation = v1alpha1.OperationCreate
	case repair != r.Stack.Repaired:
		operation, priority = v1alpha1.OperationRepair, 20
	case *r.Observed == r.GetGeneration():
		return nil, nil
	}
	name := taskName(r, operation, repair)
	if slices.ContainsFunc(tasks, func(t v1alpha1.Task) bool { return t.Name == name }) {
		return nil, nil
	}
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.GetNamespace(), Labels: map[string]string{v1alpha1.LabelResource: strings.ToLower(r.Kind)}},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: r.Kind, Name: r.GetName(), UID: string(r.GetUID())},
			Operation: operation, Generation: r.GetGeneration(), Priority: priority,
		},
	}
	if operation == v1alpha1.OperationRepair {
		status.DescribeRepair(&task.Spec, repair)
	}
	if err := controllerutil.SetControllerReference(r.Object, task, k.Scheme()); err != nil {
		return nil, err
	}
	if err := k.Create(ctx, task); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create task: %w", err)
	}
	k.Recorder.Eventf(r.Object, task, "Normal", "TaskCreated", string(operation), "task %s brings it to generation %d", task.Name, task.Spec.Generation)
	return task, nil
}

// taskName is the same for the same need, so that no need makes two tasks.
func taskName(r Resource, operation v1alpha1.Operation, repair string) string {
	number := fmt.Sprint(r.GetGeneration())
	if repair != r.Stack.Repaired {
		number += "-" + short(repair) // whatever failed is tried anew
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s", strings.ToLower(r.Kind), r.GetName(), strings.ToLower(string(operation)), number, short(string(r.GetUID())))
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// mirror tells in the status how the tasks fare.
func (k *Keeper) mirror(r Resource, tasks []v1alpha1.Task) {
	for i := range tasks {
		outputs := tasks[i].Status.Outputs
		if value, ok := outputs[provisioner.OutputInfraVersion]; ok {
			r.Stack.InfraVersion = value
		}
		r.Adopt(outputs)
	}
	status.SetDrifted(r.Conditions, r.Object, r.Stack.Drift, "cloud "+nouns[r.Kind]+" repair")
	if len(tasks) == 0 {
		return
	}
	latest := &tasks[len(tasks)-1]
	r.Stack.Task = latest.Name
	switch latest.Status.Phase {
	case v1alpha1.TaskSucceeded:
		k.settle(r, latest)
	case v1alpha1.TaskFailed, v1alpha1.TaskCancelled:
		k.fail(r, latest)
	default:
		progress(r, latest)
	}
}

func (k *Keeper) settle(r Resource, task *v1alpha1.Task) {
	*r.Observed = max(*r.Observed, task.Spec.Generation)
	r.Stack.Repaired = r.GetAnnotations()[v1alpha1.AnnotationRepair]
	if task.Spec.Generation != r.GetGeneration() {
		return // the next task is on its way
	}
	if *r.Phase != v1alpha1.PhaseRunning {
		k.Recorder.Eventf(r.Object, task, "Normal", "Ready", string(task.Spec.Operation), "%s done", strings.ToLower(string(task.Spec.Operation)))
	}
	*r.Phase, r.Stack.Progress = v1alpha1.PhaseRunning, ""
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionProgressing, false, v1alpha1.ReasonReady, "")
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionStalled, false, v1alpha1.ReasonReady, "")
}

func (k *Keeper) fail(r Resource, task *v1alpha1.Task) {
	message := fmt.Sprintf("%s failed at step %s: %s; mend it, then change its spec or run `cloud %s repair %s`",
		strings.ToLower(string(task.Spec.Operation)), task.Status.Step, task.Status.Error, nouns[r.Kind], r.GetName())
	if *r.Phase != v1alpha1.PhaseFailed {
		k.Recorder.Eventf(r.Object, task, "Warning", v1alpha1.ReasonTaskFailed, string(task.Spec.Operation), "%s", message[:min(len(message), maxNote)])
	}
	*r.Phase, r.Stack.Progress = v1alpha1.PhaseFailed, task.Status.Progress
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionReady, false, v1alpha1.ReasonTaskFailed, message)
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionProgressing, false, v1alpha1.ReasonTaskFailed, "")
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionStalled, true, v1alpha1.ReasonTaskFailed, message)
}

func progress(r Resource, task *v1alpha1.Task) {
	*r.Phase = v1alpha1.PhaseUpdating
	switch task.Spec.Operation {
	case v1alpha1.OperationCreate:
		*r.Phase = v1alpha1.PhaseProvisioning
	case v1alpha1.OperationDelete:
		*r.Phase = v1alpha1.PhaseDeleting
	case v1alpha1.OperationRepair:
		*r.Phase = v1alpha1.PhaseRepairing
	}
	r.Stack.Progress = strings.TrimSpace(task.Status.Progress + " " + task.Status.Step)
	message := "task " + task.Name
	if task.Status.Error != "" {
		message += " tries again after: " + task.Status.Error
	}
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionProgressing, true, v1alpha1.ReasonTaskRunning, message)
	status.Set(r.Conditions, r.Object, v1alpha1.ConditionStalled, false, v1alpha1.ReasonTaskRunning, "")
	if *r.Phase != v1alpha1.PhaseUpdating && *r.Phase != v1alpha1.PhaseRepairing {
		status.Set(r.Conditions, r.Object, v1alpha1.ConditionReady, false, v1alpha1.ReasonTaskRunning, message)
	}
}
