package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func watch(s *session.Session, kind *resource.Kind[*v1alpha1.Task]) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "watch TASK", Short: "Follow a task until it ends",
		Long:              "watch shows the steps of a task as they go, and ends when the task does: with exit code 1 where it failed.",
		Args:              command.Exactly("TASK"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			task, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return follow(ctx, s, task)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`time` to watch at most; without end where it is not given")
	return cmd
}

// follow shows the task until it ends.
func follow(ctx context.Context, s *session.Session, task *v1alpha1.Task) (err error) {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	display := progress.New(s.Progress())
	var gone bool
	err = progress.Follow(ctx, api, &v1alpha1.TaskList{}, func(event progress.Event) bool {
		if event.Complete {
			return false
		}
		if seen, ok := event.Object.(*v1alpha1.Task); ok && seen.UID == task.UID {
			task, gone = seen, event.Deleted
			display.Update(progress.Task(task))
		}
		return gone || task.Status.Phase.Finished()
	}, client.InNamespace(task.Namespace), client.MatchingFields{"metadata.name": task.Name})
	display.Close(err == nil && task.Status.Phase == v1alpha1.TaskSucceeded)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return exit.With(exit.TimedOut, "the task goes on", fmt.Errorf("the time is up, and task %s is still %s", task.Name, strings.ToLower(string(task.Status.Phase))))
	case err != nil:
		return err
	case gone && !task.Status.Phase.Finished():
		return fmt.Errorf("task %s is gone", task.Name)
	case task.Status.Phase == v1alpha1.TaskSucceeded:
		return nil
	default:
		return fmt.Errorf("%s: %s", strings.TrimSuffix(fmt.Sprintf("task %s %s at step %s", task.Name, strings.ToLower(string(task.Status.Phase)), task.Status.Step), " at step "), task.Status.Error)
	}
}
