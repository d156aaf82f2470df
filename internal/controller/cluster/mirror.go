package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// maxNote is how long the note of an event may be.
const maxNote = 1024

// mirror tells in the cluster's status how its tasks fare.
func (r *Reconciler) mirror(s *scope) {
	c := s.cluster
	for i := range s.tasks {
		adopt(c, &s.tasks[i])
	}
	if machine.Backs(c.Spec.Type) {
		s.countNodes()
	}
	c.Status.Nodes.Desired = 0
	for _, replicas := range s.replicas() {
		c.Status.Nodes.Desired += replicas
	}
	c.Status.NodesSummary = fmt.Sprintf("%d/%d", c.Status.Nodes.Ready, c.Status.Nodes.Desired)
	status.SetDrifted(&c.Status.Conditions, c, c.Status.Drift, "cloud k8s repair")
	latest := s.latest()
	if latest == nil {
		return
	}
	defer mirrorHealth(c, latest)
	c.Status.Task = latest.Name
	switch latest.Status.Phase {
	case v1alpha1.TaskSucceeded:
		r.settle(c, latest)
	case v1alpha1.TaskFailed, v1alpha1.TaskCancelled:
		r.fail(c, latest)
	default:
		r.progress(c, latest)
	}
}

// countNodes takes the numbers of nodes from the groups, which know them at any time; a task only knew them at its end.
func (s *scope) countNodes() {
	counts := &s.cluster.Status.Nodes
	counts.Ready, counts.Total = 0, 0
	for i := range s.groups {
		counts.Ready += s.groups[i].Status.ReadyReplicas
		counts.Total += s.groups[i].Status.Replicas
	}
}

// inventory reads what a step wrote: Kind/name, separated by commas.
func inventory(text string) []v1alpha1.InventoryItem {
	var items []v1alpha1.InventoryItem
	for part := range strings.SplitSeq(text, ",") {
		if kind, name, ok := strings.Cut(part, "/"); ok {
			items = append(items, v1alpha1.InventoryItem{Kind: kind, Name: name})
		}
	}
	return items
}

// adopt takes over what a task has brought about.
func adopt(c *v1alpha1.Cluster, task *v1alpha1.Task) {
	outputs := task.Status.Outputs
	if value, ok := outputs[provisioner.OutputEndpoint]; ok {
		c.Status.Endpoint = value
	}
	if value, ok := outputs[provisioner.OutputVersion]; ok {
		c.Status.Version = value
	}
	if value, ok := outputs[provisioner.OutputInfraVersion]; ok {
		c.Status.InfraVersion = value
	}
	if value, ok := outputs[provisioner.OutputInventory]; ok {
		c.Status.Inventory = inventory(value)
	}
	if value, ok := outputs[provisioner.OutputKubeconfig]; ok {
		c.Status.KubeconfigSecret = value
	}
	mirrorAddons(c, outputs)
	if n, err := strconv.ParseInt(outputs[provisioner.OutputNodes], 10, 32); err == nil {
		c.Status.Nodes.Total = int32(n)
	}
	if n, err := strconv.ParseInt(outputs[provisioner.OutputReadyNodes], 10, 32); err == nil {
		c.Status.Nodes.Ready = int32(n)
	}
}

func (r *Reconciler) settle(c *v1alpha1.Cluster, task *v1alpha1.Task) {
	c.Status.Repaired = c.Annotations[v1alpha1.AnnotationRepair]
	c.Status.ObservedGeneration = max(c.Status.ObservedGeneration, task.Spec.Generation)
	if task.Spec.Generation != c.Generation {
		return // the next task is on its way
	}
	c.Status.AppliedTemplate = templateHash(&c.Spec)
	c.Status.AppliedReplicas = task.Spec.Replicas
	if c.Status.Phase != v1alpha1.PhaseRunning {
		r.Recorder.Eventf(c, task, "Normal", "Ready", string(task.Spec.Operation), "%s done", strings.ToLower(string(task.Spec.Operation)))
	}
	c.Status.Phase = v1alpha1.PhaseRunning
	c.Status.Progress = ""
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "")
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionProgressing, false, v1alpha1.ReasonReady, "")
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionStalled, false, v1alpha1.ReasonReady, "")
}

func (r *Reconciler) fail(c *v1alpha1.Cluster, task *v1alpha1.Task) {
	message := fmt.Sprintf("%s failed at step %s: %s; mend it, then change the cluster's spec or run `cloud k8s repair %s`",
		strings.ToLower(string(task.Spec.Operation)), task.Status.Step, task.Status.Error, c.Name)
	if c.Status.Phase != v1alpha1.PhaseFailed {
		r.Recorder.Eventf(c, task, "Warning", v1alpha1.ReasonTaskFailed, string(task.Spec.Operation), "%s", message[:min(len(message), maxNote)])
	}
	c.Status.Phase = v1alpha1.PhaseFailed
	c.Status.Progress = task.Status.Progress
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionReady, false, v1alpha1.ReasonTaskFailed, message)
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionProgressing, false, v1alpha1.ReasonTaskFailed, "")
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionStalled, true, v1alpha1.ReasonTaskFailed, message)
}

// mirrorHealth tells in the conditions what audits found. While a task works on the cluster, or where one has failed, that
// one's word counts for whether a person has to act.
func mirrorHealth(c *v1alpha1.Cluster, latest *v1alpha1.Task) {
	health := c.Status.Health
	if health == nil {
		if latest.Status.Phase == v1alpha1.TaskSucceeded { // nothing was ever found
			status.Set(&c.Status.Conditions, c, v1alpha1.ConditionHealthy, true, v1alpha1.ReasonHealthy, "")
		}
		return
	}
	well := health.Reason == v1alpha1.ReasonHealthy
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionHealthy, well, health.Reason, health.Message)
	switch {
	case well || !latest.Status.Phase.Finished():
		return
	case health.Reason == v1alpha1.ReasonUnhealthy:
		if latest.Spec.Automatic { // it is tried again by itself
			status.Set(&c.Status.Conditions, c, v1alpha1.ConditionStalled, false, health.Reason, health.Message)
		}
		return
	}
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionStalled, true, health.Reason, health.Message)
	if c.Status.Phase == v1alpha1.PhaseRunning {
		c.Status.Progress = "unhealthy: " + health.Reason
	}
}

func (r *Reconciler) progress(c *v1alpha1.Cluster, task *v1alpha1.Task) {
	switch task.Spec.Operation {
	case v1alpha1.OperationCreate:
		c.Status.Phase = v1alpha1.PhaseProvisioning
	case v1alpha1.OperationDelete:
		c.Status.Phase = v1alpha1.PhaseDeleting
	case v1alpha1.OperationRepair:
		c.Status.Phase = v1alpha1.PhaseRepairing
	default:
		c.Status.Phase = v1alpha1.PhaseUpdating
	}
	c.Status.Progress = strings.TrimSpace(task.Status.Progress + " " + task.Status.Step)
	message := "task " + task.Name
	if task.Status.Error != "" {
		message += " tries again after: " + task.Status.Error
		if before := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing); before == nil || before.Message != message {
			r.Recorder.Eventf(c, task, "Warning", v1alpha1.ReasonTaskRetried, string(task.Spec.Operation), "%s", message[:min(len(message), maxNote)])
		}
	}
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionProgressing, true, v1alpha1.ReasonTaskRunning, message)
	status.Set(&c.Status.Conditions, c, v1alpha1.ConditionStalled, false, v1alpha1.ReasonTaskRunning, "")
	if task.Spec.Operation == v1alpha1.OperationCreate || task.Spec.Operation == v1alpha1.OperationDelete {
		status.Set(&c.Status.Conditions, c, v1alpha1.ConditionReady, false, v1alpha1.ReasonTaskRunning, message)
	}
}

// Replicas is the number of nodes that a group should have.
func Replicas(group v1alpha1.NodeGroupTemplate) int32 {
	if group.Replicas != nil {
		return *group.Replicas
	}
	return group.MinReplicas
}
