package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Planning is the flags of a command that tells what a change would do.
type Planning struct {
	InfraVersion, Change string
	Timeout              time.Duration
}

// PlanHelp says what such a command does.
const PlanHelp = "plan tells what a change would do to what is in the cloud: what is created, changed in place, replaced and why, or\n" +
	"destroyed. It changes nothing. Without flags it tells what differs from what was asked for. A change that would lose\n" +
	"something is refused until it is agreed to by name: plan says what that is, and ends with exit code 4."

// AddTo adds them to a command.
func (p *Planning) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.InfraVersion, "infra-version", "", "`version` of the infrastructure's configuration, such as v1.1.0")
	cmd.Flags().StringVar(&p.Change, "change", "", "any other change of the spec, as a JSON merge `patch`, such as '{\"deletionProtection\": true}'")
	cmd.Flags().DurationVar(&p.Timeout, "timeout", 10*time.Minute, "`time` to wait at most")
}

// Patch is the change that the flags say, on top of another one.
func (p *Planning) Patch(change map[string]any) (map[string]any, error) {
	if p.Timeout <= 0 {
		return nil, exit.Usagef("--timeout: give a time, such as 90s or 10m")
	}
	patch := map[string]any{}
	if p.Change != "" {
		if err := json.Unmarshal([]byte(p.Change), &patch); err != nil || patch == nil {
			return nil, exit.Usagef("--change: %q is no JSON object", p.Change)
		}
	}
	for name, value := range change {
		patch[name] = value
	}
	if p.InfraVersion != "" {
		patch["infraVersion"] = p.InfraVersion
	}
	return patch, nil
}

// PlanCommand is the command that tells what a change would do. The check refuses what is in no cloud.
func (k *Kind[T]) PlanCommand(s *session.Session, check func(T) error) *cobra.Command {
	var p Planning
	name := strings.ToUpper(k.Noun)
	cmd := &cobra.Command{
		Use: "plan " + name, Short: "Tell what a change would do to what is in the cloud",
		Long:              PlanHelp,
		Args:              command.Exactly(name),
		ValidArgsFunction: k.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := k.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if err := check(object); err != nil {
				return err
			}
			change, err := p.Patch(nil)
			if err != nil {
				return err
			}
			return k.Plan(cmd.Context(), s, object, change, p.Timeout)
		},
	}
	p.AddTo(cmd)
	return cmd
}

// Plan shows what a change of an object's spec would do.
func (k *Kind[T]) Plan(ctx context.Context, s *session.Session, object T, change map[string]any, timeout time.Duration) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	request := v1alpha1.PlanRequest{At: s.Now()}
	if len(change) > 0 {
		if err := k.allowed(ctx, api, object, change); err != nil {
			return err
		}
		text, err := json.Marshal(change)
		if err != nil {
			return err
		}
		request.Change = string(text)
	}
	if err := Annotate(ctx, api, object, v1alpha1.AnnotationPlan, request.String()); err != nil {
		return err
	}
	task, err := k.planned(ctx, s, api, object, request, timeout)
	if err != nil {
		return err
	}
	return showPlan(s, k.Noun, object.GetName(), task)
}

// allowed has the API look at a change that is not made.
func (k *Kind[T]) allowed(ctx context.Context, api client.Client, object T, change map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": change})
	if err != nil {
		return err
	}
	tried, ok := object.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("plan %s %s: it cannot be copied", k.Noun, object.GetName())
	}
	if err := api.Patch(ctx, tried, client.RawPatch(types.MergePatchType, patch), client.DryRunAll); err != nil {
		return fmt.Errorf("plan %s %s: %w", k.Noun, object.GetName(), err)
	}
	return nil
}

// planned follows the task that answers a request, until it ends.
func (k *Kind[T]) planned(ctx context.Context, s *session.Session, api client.WithWatch, object T, request v1alpha1.PlanRequest, timeout time.Duration) (*v1alpha1.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := request.At.UTC().Format(time.RFC3339Nano)
	var task *v1alpha1.Task
	display := progress.New(s.Progress())
	err := progress.Follow(ctx, api, &v1alpha1.TaskList{}, func(event progress.Event) bool {
		seen, ok := event.Object.(*v1alpha1.Task)
		if event.Complete || !ok || event.Deleted || types.UID(seen.Spec.Resource.UID) != object.GetUID() || seen.Annotations[v1alpha1.AnnotationPlan] != at {
			return false
		}
		task = seen
		display.Update(progress.Task(task))
		return task.Status.Phase.Finished()
	}, client.InNamespace(object.GetNamespace()), client.MatchingFields{"spec.resource.name": object.GetName()})
	display.Close(err == nil && task.Status.Phase == v1alpha1.TaskSucceeded)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && task == nil:
		return nil, exit.With(exit.TimedOut, "`cloud task list` tells what the platform does", fmt.Errorf("the time is up, and nothing was planned"))
	case errors.Is(err, context.DeadlineExceeded):
		return nil, exit.With(exit.TimedOut, fmt.Sprintf("`cloud task show %s` tells more", task.Name), fmt.Errorf("the time is up, and the plan is not known yet"))
	case err != nil:
		return nil, err
	case task.Status.Phase != v1alpha1.TaskSucceeded:
		return nil, exit.With(exit.Failed, fmt.Sprintf("`cloud task show %s` tells more", task.Name),
			fmt.Errorf("plan %s %s: %s: %s", k.Noun, object.GetName(), strings.ToLower(string(task.Status.Phase)), task.Status.Error))
	}
	return task, nil
}

// outputPlan is what a task says a plan in words by.
const outputPlan = "plan"

// showPlan writes a plan, and refuses what would be refused.
func showPlan(s *session.Session, noun, name string, task *v1alpha1.Task) error {
	result, found := task.Result()
	if !found {
		return fmt.Errorf("plan %s %s: task %s has put out no plan", noun, name, task.Name)
	}
	if s.Flags.Output == output.FormatTable {
		if _, err := fmt.Fprintln(s.Out, strings.TrimSpace(task.Status.Outputs[outputPlan])); err != nil {
			return err
		}
	} else {
		view := output.View{Value: result}
		for _, change := range result.Changes {
			view.Names = append(view.Names, change.Address)
		}
		if err := s.Printer().Print(view); err != nil {
			return err
		}
	}
	if result.Refused == "" {
		return nil
	}
	hint := "change what is asked for"
	if len(result.Consent) > 0 {
		hint = fmt.Sprintf("to agree to it, give upgrade or repair --agree-to='%[3]s'; for any other change, set the annotation %[2]s=%[3]s of the %[1]s before it",
			noun, v1alpha1.AnnotationConsent, strings.Join(result.Consent, ","))
	}
	return exit.Refusedf(hint, "this change would be refused: %s", strings.TrimPrefix(result.Refused, "plan refused: "))
}
