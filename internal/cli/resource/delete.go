package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Deletion is the flags of a delete.
type Deletion struct {
	Yes           bool
	IgnoreMissing bool
	DryRun        DryRun
	Waiting       Waiting
	// Forgettable objects are in clouds, and can be deleted from the platform's record alone.
	Forgettable bool
	forget      Forgetting
	// Before does something to each object before it is deleted; may be nil.
	Before func(ctx context.Context, api client.Client, object client.Object) error
}

// Delete is the command that deletes the kind's objects.
func (k *Kind[T]) Delete(s *session.Session) *cobra.Command { return k.DeleteWith(s, &Deletion{}) }

// DeleteWith is Delete with more to it.
func (k *Kind[T]) DeleteWith(s *session.Session, d *Deletion) *cobra.Command {
	name := strings.ToUpper(k.Noun)
	cmd := &cobra.Command{
		Use: "delete " + name + "…", Aliases: []string{"rm"}, Short: "Delete " + k.Plural,
		Args:              command.AtLeastOne(name),
		ValidArgsFunction: k.Complete(s, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.Waiting.Check(cmd); err != nil {
				return err
			}
			if !d.Yes && !d.DryRun.On() {
				sure, err := s.Confirm(cmd.Context(), d.forget.Warning()+fmt.Sprintf("Delete %s %s?", k.Noun, strings.Join(args, ", ")))
				if err != nil {
					return err
				}
				if !sure {
					return exit.Refusedf("", "nothing was deleted")
				}
			}
			var failures []error
			for _, name := range args {
				failures = append(failures, k.remove(cmd.Context(), s, name, d))
			}
			return joined(failures)
		},
	}
	cmd.Flags().BoolVarP(&d.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&d.IgnoreMissing, "ignore-not-found", false, "what is not there is no error")
	if d.Forgettable {
		d.forget.AddTo(cmd)
		cmd.Long = "delete removes " + k.Plural + " and all that was made for them.\n\n" + ForgetHelp
	}
	d.DryRun.AddTo(cmd)
	d.Waiting.AddTo(cmd, "it is gone")
	return cmd
}

// joined is the errors as one; the exit code is the first one's.
func joined(failures []error) error {
	var failed []error
	for _, err := range failures {
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

func (k *Kind[T]) remove(ctx context.Context, s *session.Session, name string, d *Deletion) error {
	object, err := k.Fetch(ctx, s, name)
	if err != nil {
		if d.IgnoreMissing && exit.Of(err) == exit.NotFound {
			return nil
		}
		return err
	}
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	if d.Before != nil && !d.DryRun.On() {
		if err := d.Before(ctx, api, object); err != nil {
			return err
		}
	}
	if !d.DryRun.On() {
		if err := d.forget.Ask(ctx, api, object); err != nil {
			return err
		}
	}
	uid := object.GetUID() // not another one that has had the name since
	opts := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if d.DryRun.On() {
		opts = append(opts, client.DryRunAll)
	}
	if err := api.Delete(ctx, object, opts...); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", k.Noun, name, err)
	}
	if d.Waiting.Wait && !d.DryRun.On() {
		return k.Await(ctx, s, object, v1alpha1.OperationDelete, d.Waiting.Timeout)
	}
	if k.Tasks {
		s.Note("%s %s is being deleted%s", k.Noun, name, d.DryRun.Note())
	} else {
		s.Note("%s %s deleted%s", k.Noun, name, d.DryRun.Note())
	}
	return nil
}
