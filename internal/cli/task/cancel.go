package task

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func cancel(s *session.Session, kind *resource.Kind[*v1alpha1.Task]) *cobra.Command {
	return &cobra.Command{
		Use: "cancel TASK", Short: "Stop a task at the end of its step",
		Long: "cancel asks the worker to stop after the step that runs. What the task has done so far stays; its resource is FAILED\n" +
			"until it is repaired, changed or deleted. A deletion cannot be cancelled. What is being made in a cloud is interrupted: it\n" +
			"waits for what the cloud is just making, keeps the record of that, and ends then; a thing that was cut short is made anew\n" +
			"by the next operation, which asks for consent to that where it may lose something.",
		Args:              command.Exactly("TASK"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			task, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			switch {
			case task.Status.Phase.Finished():
				return exit.Refusedf("", "task %s has ended already: %s", task.Name, task.Status.Phase)
			case task.Spec.Operation == v1alpha1.OperationDelete:
				return exit.Refusedf("", "task %s is a deletion, and those are not cancelled", task.Name)
			}
			api, err := s.Client(ctx)
			if err != nil {
				return err
			}
			before := task.DeepCopy()
			if task.Annotations == nil {
				task.Annotations = map[string]string{}
			}
			task.Annotations[v1alpha1.AnnotationCancel] = "true"
			if err := api.Patch(ctx, task, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("cancel task %s: %w", task.Name, err)
			}
			s.Note("task %s stops at the end of its step", task.Name)
			return nil
		},
	}
}
