package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// priorities: what ends things goes before what makes them, and a person's scaling before a long upgrade.
var priorities = map[v1alpha1.Operation]int32{
	v1alpha1.OperationDelete: 30, v1alpha1.OperationRepair: 20, v1alpha1.OperationScale: 10,
}

// decide makes the task that brings the cluster to its spec, where there is none yet.
func (r *Reconciler) decide(ctx context.Context, s *scope) error {
	operation, needed := s.operation()
	if !needed {
		return nil
	}
	name := s.taskName(operation)
	for i := range s.tasks {
		if s.tasks[i].Name == name {
			return nil
		}
	}
	if err := r.cancelOutdated(ctx, s, operation); err != nil {
		return err
	}
	task := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.cluster.Namespace,
			Labels: map[string]string{v1alpha1.LabelCluster: s.cluster.Name, v1alpha1.LabelResource: "cluster"},
		},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: s.cluster.Name, UID: string(s.cluster.UID)},
			Operation: operation, Generation: s.cluster.Generation, Priority: priorities[operation], Replicas: s.replicas(),
		},
	}
	if operation == v1alpha1.OperationRepair {
		status.DescribeRepair(&task.Spec, s.cluster.Annotations[v1alpha1.AnnotationRepair])
	}
	if err := controllerutil.SetControllerReference(s.cluster, task, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, task); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create task: %w", err)
	}
	r.Recorder.Eventf(s.cluster, task, "Normal", "TaskCreated", string(operation), "task %s brings the cluster to generation %d%s",
		task.Name, task.Spec.Generation, because(task.Spec.Reason))
	s.tasks = append(s.tasks, *task)
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// operation is what has to be done, if anything.
func (s *scope) operation() (v1alpha1.Operation, bool) {
	c := s.cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return v1alpha1.OperationDelete, true
	case c.Status.ObservedGeneration == 0:
		return v1alpha1.OperationCreate, true
	case c.Annotations[v1alpha1.AnnotationRepair] != c.Status.Repaired:
		return v1alpha1.OperationRepair, true
	case c.Status.ObservedGeneration == c.Generation:
		return v1alpha1.OperationScale, s.scaled()
	case c.Spec.Version != "" && !strings.HasPrefix(c.Status.Version+".", c.Spec.Version+"."):
		return v1alpha1.OperationUpgrade, true
	case c.Status.AppliedTemplate == templateHash(&c.Spec):
		return v1alpha1.OperationScale, true
	default:
		return v1alpha1.OperationUpdate, true
	}
}

// taskName is the same for the same need, so that no need makes two tasks.
func (s *scope) taskName(operation v1alpha1.Operation) string {
	suffix := ""
	if operation == v1alpha1.OperationScale && s.scaled() {
		suffix = "-" + s.groupsHash()
	}
	return taskName(s.cluster, operation, suffix)
}

func taskName(c *v1alpha1.Cluster, operation v1alpha1.Operation, suffix string) string {
	number := fmt.Sprint(c.Generation)
	if request := c.Annotations[v1alpha1.AnnotationRepair]; request != c.Status.Repaired {
		number += "-" + shortHash([]byte(request)) // whatever failed is tried anew
	}
	// The UID tells the tasks of a cluster from those of one that had its name before.
	return fmt.Sprintf("%s-%s-%s%s-%s", c.Name, strings.ToLower(string(operation)), number, suffix, shortHash([]byte(c.UID)))
}

// RepairTask is the name of the task that meets the request for a repair that a cluster has.
func RepairTask(c *v1alpha1.Cluster) string { return taskName(c, v1alpha1.OperationRepair, "") }

// cancelOutdated ends a scaling of the same generation that goes for other numbers, and a repair that was asked for before
// this one: a newer generation would supersede them, but neither a group that is scaled by itself nor a request for a
// repair changes its cluster's generation.
func (r *Reconciler) cancelOutdated(ctx context.Context, s *scope, operation v1alpha1.Operation) error {
	why := map[v1alpha1.Operation]string{
		v1alpha1.OperationScale: "its node groups were scaled again", v1alpha1.OperationRepair: "another repair was asked for",
	}[operation]
	for i := range s.tasks {
		task := &s.tasks[i]
		if why == "" || task.Spec.Operation != operation || task.Spec.Generation != s.cluster.Generation ||
			task.Status.Phase.Finished() || task.Annotations[v1alpha1.AnnotationCancel] != "" {
			continue
		}
		before := task.DeepCopy()
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationCancel, why)
		if err := client.IgnoreNotFound(r.Patch(ctx, task, client.MergeFrom(before))); err != nil {
			return fmt.Errorf("cancel task %s: %w", task.Name, err)
		}
	}
	return nil
}

// templateHash covers what is neither the number of nodes nor the version.
func templateHash(spec *v1alpha1.ClusterSpec) string {
	rest := spec.DeepCopy()
	rest.Version = ""
	for name, group := range rest.NodeGroups {
		group.Replicas, group.MinReplicas, group.MaxReplicas = nil, 0, 0
		rest.NodeGroups[name] = group
	}
	content, err := json.Marshal(rest)
	if err != nil {
		return "" // cannot be: it came as JSON
	}
	return shortHash(content)
}

func shortHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:4])
}
