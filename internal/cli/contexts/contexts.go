// Package contexts is the commands about contexts: the installations that the command line knows, and which of them it
// works with.
package contexts

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	return command.Alias(command.Group("context", "Installations that this program knows",
		list(s), use(s), add(s), remove(s)), "contexts", "ctx")
}

// Complete completes names of contexts.
func Complete(s *session.Session) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		store, err := s.Store()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		file, err := store.Load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return file.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}

func missing(file *config.File, name string) error {
	return exit.NotFoundf("`cloud context list` lists them", "there is no context %q%s", name, command.DidYouMean(name, file.Names(), ""))
}
