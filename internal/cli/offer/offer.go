// Package offer is the commands that tell what an installation has to offer: versions of Kubernetes, instance types and
// presets. All of it comes from the installation's catalogue.
package offer

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Complete completes words that the catalogue has.
func Complete(s *session.Session, words func(*catalogue.Catalogue) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		offered, err := s.Catalogue(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return words(offered), cobra.ShellCompDirectiveNoFileComp
	}
}

// Versions of Kubernetes in a catalogue.
func Versions(c *catalogue.Catalogue) []string { return c.KubernetesVersions }

// InstanceTypes in a catalogue, by name.
func InstanceTypes(c *catalogue.Catalogue) []string {
	var names []string
	for _, t := range c.InstanceTypes {
		names = append(names, t.Name)
	}
	return names
}
