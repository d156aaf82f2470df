package resource

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Annotate asks something of an object that its spec has no field for.
func Annotate(ctx context.Context, api client.Client, object client.Object, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := api.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate %s: %w", object.GetName(), err)
	}
	return nil
}

// AskRepair asks for a repair of an object, and waits for it where that is wanted.
func (k *Kind[T]) AskRepair(ctx context.Context, s *session.Session, object T, request v1alpha1.RepairRequest, agreement *Agreement, waiting *Waiting) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	target := k.Target(object, v1alpha1.OperationRepair)
	target.Repair = request.String()
	if target.Earlier, err = tasks(ctx, api, object); err != nil {
		return err
	}
	if err := agreement.Ask(ctx, api, object); err != nil {
		return err
	}
	if err := Annotate(ctx, api, object, v1alpha1.AnnotationRepair, target.Repair); err != nil {
		return err
	}
	s.Note("repair of %s %s is asked for", k.Noun, object.GetName())
	if !waiting.Wait {
		return nil
	}
	return Await(ctx, s, target, waiting.Timeout)
}

// tasks are those that an object has already, which are none of what comes.
func tasks(ctx context.Context, api client.Client, object client.Object) (map[types.UID]bool, error) {
	var list v1alpha1.TaskList
	if err := api.List(ctx, &list, client.InNamespace(object.GetNamespace()), client.MatchingFields{"spec.resource.name": object.GetName()}); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	have := map[types.UID]bool{}
	for _, task := range list.Items {
		have[task.UID] = true
	}
	return have, nil
}

// Repair is the command that has what is in a cloud put right. The check refuses what is in none; may be nil.
func (k *Kind[T]) Repair(s *session.Session, check func(T) error) *cobra.Command {
	var waiting Waiting
	var agreement Agreement
	name := strings.ToUpper(k.Noun)
	cmd := &cobra.Command{
		Use: "repair " + name, Short: "Put right what differs from what was asked for",
		Long: "repair compares what is in the cloud with what was asked for, and puts right what differs. What failed before is tried anew.\n" +
			"Where that would lose something it is refused, unless that is agreed to by name with --agree-to.",
		Args:              command.Exactly(name),
		ValidArgsFunction: k.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := waiting.Check(cmd); err != nil {
				return err
			}
			object, err := k.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if check != nil {
				if err := check(object); err != nil {
					return err
				}
			}
			return k.AskRepair(cmd.Context(), s, object, v1alpha1.RepairRequest{At: s.Now()}, &agreement, &waiting)
		},
	}
	agreement.AddTo(cmd)
	waiting.AddTo(cmd, "it is repaired")
	return cmd
}

// Forgetting is the flag of a deletion that leaves everything in the cloud.
type Forgetting struct{ on bool }

// AddTo adds it to a command.
func (f *Forgetting) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "forget", false, "only remove it from the platform's record, and leave everything that was made in the cloud")
}

// ForgetHelp says what the flag does.
const ForgetHelp = "With --forget it is removed from the platform's record alone, for accounts whose credentials are revoked: all that was made\n" +
	"stays in the cloud, costs, and is yours to remove. What it is, is listed in the task that did it, and in an event."

// Ask has the object forgotten, if that is wanted.
func (f *Forgetting) Ask(ctx context.Context, api client.Client, object client.Object) error {
	if !f.on {
		return nil
	}
	return Annotate(ctx, api, object, v1alpha1.AnnotationForget, object.GetName())
}

// Warning is what a person is asked besides.
func (f *Forgetting) Warning() string {
	if !f.on {
		return ""
	}
	return "Everything that was made for it stays in the cloud, and the platform will know nothing of it any more. "
}
