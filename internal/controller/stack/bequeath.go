package stack

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// EventLeftInCloud is the event of a resource that was deleted from the platform's record alone.
const EventLeftInCloud = "LeftInCloud"

// Bequeath keeps the task that lists what a resource leaves in the cloud, which would otherwise go with the resource, and
// tells of it in an event. Of one that leaves nothing it keeps nothing. Again is fine.
func Bequeath(ctx context.Context, c client.Client, recorder events.EventRecorder, object client.Object, tasks []v1alpha1.Task) error {
	for i := range tasks {
		task := &tasks[i]
		remains, listed := task.Status.Outputs[provisioner.OutputRemains]
		if !listed || len(task.OwnerReferences) == 0 {
			continue
		}
		before := task.DeepCopy()
		task.OwnerReferences = nil
		if err := client.IgnoreNotFound(c.Patch(ctx, task, client.MergeFrom(before))); err != nil {
			return fmt.Errorf("keep task %s: %w", task.Name, err)
		}
		var lines []string
		if remains != "" {
			lines = strings.Split(remains, "\n")
		}
		note := fmt.Sprintf("%d resources are left in the cloud; task %s lists them: %s", len(lines), task.Name, strings.Join(lines, ", "))
		recorder.Eventf(object, task, "Warning", EventLeftInCloud, string(task.Spec.Operation), "%s", note[:min(len(note), maxNote)])
	}
	return nil
}
