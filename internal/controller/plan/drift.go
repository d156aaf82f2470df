package plan

import (
	"context"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// maxAddresses is how many things that differ a status names.
const maxAddresses = 50

// tell takes what tasks have found out over into the status: a comparison tells what differs, and after a change nothing
// does.
func tell(s *Subject, tasks []v1alpha1.Task) {
	for i := range tasks {
		task := &tasks[i]
		finished := task.Status.FinishedAt
		if finished == nil || *s.Drift != nil && !finished.After((*s.Drift).CheckedAt.Time) {
			continue
		}
		if found := finding(s, task); found != nil {
			found.CheckedAt = *finished
			*s.Drift = found
		}
	}
}

// finding is what a task that has ended says of what is in the cloud; nil where it says nothing.
func finding(s *Subject, task *v1alpha1.Task) *v1alpha1.Drift {
	before := v1alpha1.Drift{}
	if *s.Drift != nil {
		before = **s.Drift
	}
	result, looked := task.Result()
	compares := task.Spec.Operation == v1alpha1.OperationPlan && task.Spec.Change == "" && task.Spec.Generation == s.Object.GetGeneration()
	switch {
	case task.Spec.Operation.Changes() && task.Status.Phase == v1alpha1.TaskSucceeded:
		if task.Spec.Automatic { // whether it has helped for long is seen by the next comparison
			return &v1alpha1.Drift{Repairs: before.Repairs + 1}
		}
		return &v1alpha1.Drift{}
	case compares && looked && task.Status.Phase == v1alpha1.TaskSucceeded:
		found := &v1alpha1.Drift{Refused: result.Refused}
		for _, change := range result.Changes[:min(len(result.Changes), maxAddresses)] {
			found.Addresses = append(found.Addresses, change.Address)
		}
		if len(found.Addresses) > 0 {
			found.Repairs = before.Repairs
		}
		return found
	case compares && task.Spec.Automatic && task.Status.Phase == v1alpha1.TaskFailed:
		return &v1alpha1.Drift{Error: task.Status.Error, Addresses: before.Addresses, Refused: before.Refused, Repairs: before.Repairs}
	}
	return nil
}

// repair asks for a repair of what differs, where the resource says so, nothing is lost by it, and it has not been tried too
// often. After each comparison one is asked for, so that the interval lies between two.
func (r *Reconciler) repair(ctx context.Context, s *Subject, tasks []v1alpha1.Task) error {
	drift := *s.Drift
	outstanding := s.Object.GetAnnotations()[v1alpha1.AnnotationRepair] != s.Repaired
	if drift == nil || len(drift.Addresses) == 0 || drift.Refused != "" || drift.Error != "" || !s.Repair || !s.Rests || outstanding ||
		int(drift.Repairs) >= r.Limits.Attempts {
		return nil
	}
	for i := range tasks {
		if !tasks[i].Status.Phase.Finished() || tasks[i].Spec.Operation.Changes() && tasks[i].CreationTimestamp.After(drift.CheckedAt.Time) {
			return nil // something is being done, or was, and the next comparison tells what came of it
		}
	}
	request := v1alpha1.RepairRequest{At: r.Clock.Now(), Automatic: true, Reason: reason(drift.Addresses)}
	changed, ok := s.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("ask for a repair: %T is no object", s.Object)
	}
	before, _ := changed.DeepCopyObject().(client.Object)
	annotations := map[string]string{}
	for name, value := range changed.GetAnnotations() {
		annotations[name] = value
	}
	annotations[v1alpha1.AnnotationRepair] = request.String()
	changed.SetAnnotations(annotations)
	if err := r.Patch(ctx, changed, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("ask for a repair: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("asked for a repair of drift", "addresses", drift.Addresses)
	return nil
}

// reason is what a repair is asked for with.
func reason(addresses []string) string {
	const most = 900
	text := "somebody else has changed " + strings.Join(addresses, ", ")
	return text[:min(len(text), most)]
}

// Kind is how the resources of a kind are looked at.
type Kind struct {
	Name string
	New  func() client.Object
	// Describe is nil for what is in no cloud.
	Describe func(object client.Object) *Subject
}

// Subject is a resource in a cloud, and the parts of its status that are kept here.
type Subject struct {
	Object   client.Object
	Planned  *string
	Drift    **v1alpha1.Drift
	Observed int64
	Repaired string
	// Rests: it is what was asked for, as far as anybody knows.
	Rests bool
	// Repair: what differs is to be put right.
	Repair   bool
	Replicas map[string]int32
}

// Kinds are those that there are in clouds.
func Kinds() []Kind {
	return []Kind{
		{Name: "Network", New: func() client.Object { return &v1alpha1.Network{} }, Describe: network},
		{Name: "Cluster", New: func() client.Object { return &v1alpha1.Cluster{} }, Describe: cluster},
		{Name: "Bucket", New: func() client.Object { return &v1alpha1.Bucket{} }, Describe: bucket},
	}
}

func network(object client.Object) *Subject {
	n, ok := object.(*v1alpha1.Network)
	if !ok || n.Status.InfraVersion == "" {
		return nil
	}
	return ofStack(n, &n.Status.StackStatus, n.Status.Phase, n.Status.ObservedGeneration, n.Spec.RepairDrift)
}

func bucket(object client.Object) *Subject {
	b, ok := object.(*v1alpha1.Bucket)
	if !ok {
		return nil
	}
	return ofStack(b, &b.Status.StackStatus, b.Status.Phase, b.Status.ObservedGeneration, b.Spec.RepairDrift)
}

func ofStack(object client.Object, s *v1alpha1.StackStatus, phase v1alpha1.Phase, observed int64, repair bool) *Subject {
	return &Subject{
		Object: object, Planned: &s.Planned, Drift: &s.Drift, Observed: observed, Repaired: s.Repaired, Repair: repair,
		Rests: phase == v1alpha1.PhaseRunning && observed == object.GetGeneration(),
	}
}

func cluster(object client.Object) *Subject {
	c, ok := object.(*v1alpha1.Cluster)
	if !ok || !c.Spec.Type.InCloud() {
		return nil
	}
	s := &c.Status
	return &Subject{
		Object: c, Planned: &s.Planned, Drift: &s.Drift, Observed: s.ObservedGeneration, Repaired: s.Repaired, Repair: c.Spec.RepairDrift,
		Rests: s.Phase == v1alpha1.PhaseRunning && s.ObservedGeneration == c.Generation, Replicas: s.AppliedReplicas,
	}
}

// DefaultLimits are for those who have no wishes.
func DefaultLimits() Limits { return Limits{Interval: time.Hour, AtOnce: 4, Attempts: 3} }
