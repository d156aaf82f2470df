package contexts

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func list(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List contexts",
		Args: command.None,
		RunE: func(*cobra.Command, []string) error {
			store, err := s.Store()
			if err != nil {
				return err
			}
			file, err := store.Load()
			if err != nil {
				return err
			}
			if len(file.Contexts) == 0 && s.Flags.Output == output.FormatTable {
				s.Note("there are no contexts; `cloud up` and `cloud context add` make them")
				return nil
			}
			current := s.ContextName()
			if current == "" {
				current = file.CurrentContext
			}
			table := output.Table{Header: []string{"CURRENT", "NAME", "SERVER", "PROJECT", "USER"}}
			for _, c := range file.Contexts {
				mark, server := "", c.Server
				if c.Name == current {
					mark = "*"
				}
				if c.Kubeconfig != "" {
					server = "kubeconfig " + c.Kubeconfig
				}
				table.Rows = append(table.Rows, []string{mark, c.Name, server, output.Or(c.Project), output.Or(c.User)})
			}
			return s.Printer().Print(output.View{Value: file, Names: file.Names(), Table: []output.Section{{Table: table}}})
		},
	}
}
