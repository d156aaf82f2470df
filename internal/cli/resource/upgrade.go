package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Agreement is the flag by which people agree to lose something in a cloud.
type Agreement struct{ addresses []string }

// AddTo adds it to a command.
func (a *Agreement) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.addresses, "agree-to", nil, "`address` in the cloud, as plan shows it, of what may be replaced or destroyed though something is lost; may be repeated")
}

// annotations are what the flag says.
func (a *Agreement) annotations() map[string]any {
	if len(a.addresses) == 0 {
		return nil
	}
	return map[string]any{v1alpha1.AnnotationConsent: strings.Join(a.addresses, ",")}
}

// Ask writes down what was agreed to, if anything.
func (a *Agreement) Ask(ctx context.Context, api client.Client, object client.Object) error {
	for name, value := range a.annotations() {
		if err := Annotate(ctx, api, object, name, fmt.Sprint(value)); err != nil {
			return err
		}
	}
	return nil
}

// Upgrading is the flags of a command that brings something to another version.
type Upgrading struct {
	Agreement
	DryRun       DryRun
	Waiting      Waiting
	InfraVersion string
}

// AddTo adds them to a command.
func (u *Upgrading) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&u.InfraVersion, "infra-version", "", "`version` of the configuration that it is made by in the cloud, such as v1.1.0")
	u.Agreement.AddTo(cmd)
	u.DryRun.AddTo(cmd)
	u.Waiting.AddTo(cmd, "it has the version")
}

// UpgradeCommand is the command that brings what is in a cloud to another version of the configuration that it is made by. The
// check refuses what is in no cloud.
func (k *Kind[T]) UpgradeCommand(s *session.Session, check func(T) error) *cobra.Command {
	var u Upgrading
	name := strings.ToUpper(k.Noun)
	cmd := &cobra.Command{
		Use: "upgrade " + name, Short: "Bring it to another version of the configuration that it is made by",
		Long: "upgrade brings what is in the cloud to another infra version: what the platform makes, and how. `cloud … plan` tells before\n" +
			"what that would change. Where it would lose something it is refused, unless that is agreed to by name with --agree-to.",
		Args:              command.Exactly(name),
		ValidArgsFunction: k.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if u.InfraVersion == "" {
				return exit.Usagef("--infra-version is missing")
			}
			if err := u.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := k.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if err := check(object); err != nil {
				return err
			}
			return k.Upgrade(cmd.Context(), s, object, nil, &u)
		},
	}
	u.AddTo(cmd)
	return cmd
}

// Upgrade changes versions in an object's spec: that of the flags, and others.
func (k *Kind[T]) Upgrade(ctx context.Context, s *session.Session, object T, versions map[string]string, u *Upgrading) error {
	spec, said := map[string]string{}, []string{}
	for name, version := range versions {
		spec[name], said = version, append(said, version)
	}
	if u.InfraVersion != "" {
		spec["infraVersion"], said = u.InfraVersion, append(said, "infra version "+u.InfraVersion)
	}
	change := map[string]any{"spec": spec}
	if agreed := u.annotations(); agreed != nil { // null would take all annotations away
		change["metadata"] = map[string]any{"annotations": agreed}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	var opts []client.PatchOption
	if u.DryRun.On() {
		opts = append(opts, client.DryRunAll)
	}
	before := object.GetGeneration()
	if err := api.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), opts...); err != nil {
		return fmt.Errorf("upgrade %s %s: %w", k.Noun, object.GetName(), err)
	}
	if object.GetGeneration() == before && !u.DryRun.On() {
		s.Note("%s %s shall have %s already", k.Noun, object.GetName(), strings.Join(said, " and "))
	} else {
		s.Note("%s %s shall have %s%s", k.Noun, object.GetName(), strings.Join(said, " and "), u.DryRun.Note())
	}
	if !u.Waiting.Wait || u.DryRun.On() {
		return nil
	}
	return k.Await(ctx, s, object, v1alpha1.OperationUpgrade, u.Waiting.Timeout)
}
