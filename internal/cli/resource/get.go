package resource

import (
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/manifest"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Get is the command that shows one of the kind's objects.
func (k *Kind[T]) Get(s *session.Session) *cobra.Command {
	name := strings.ToUpper(k.Noun)
	return &cobra.Command{
		Use: "get " + name, Aliases: []string{"show"}, Short: "Show " + article(k.Noun) + " " + k.Noun,
		Args:              command.Exactly(name),
		ValidArgsFunction: k.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := k.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			var related []output.Section
			if k.Related != nil && s.Flags.Output == output.FormatTable {
				if related, err = k.Related(cmd.Context(), s, object); err != nil {
					return err
				}
			}
			return k.Show(s, object, related...)
		},
	}
}

// Show writes one of the kind's objects, and what is to be seen beside it.
func (k *Kind[T]) Show(s *session.Session, object T, related ...output.Section) error {
	shown, err := manifest.Show(object, k.GVK())
	if err != nil {
		return err
	}
	now := s.Now()
	about := output.Table{Rows: [][]string{{"Name:", object.GetName()}}}
	for _, column := range k.Columns {
		about.Rows = append(about.Rows, []string{title(column.Name) + ":", column.Value(object, now)})
	}
	view := output.View{Value: shown, Names: []string{object.GetName()}, Table: []output.Section{{Table: about}}}
	if k.Details != nil {
		view.Table = append(view.Table, k.Details(object, now)...)
	}
	view.Table = append(view.Table, related...)
	if k.Conditions != nil {
		if conditions := k.Conditions(object); len(conditions) > 0 {
			table := output.Table{Indent: "  ", Header: []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}}
			for _, c := range conditions {
				table.Rows = append(table.Rows, []string{c.Type, string(c.Status), c.Reason, output.Age(now, c.LastTransitionTime), c.Message})
			}
			view.Table = append(view.Table, output.Section{Heading: "Conditions:", Table: table})
		}
	}
	return s.Printer().Print(view)
}

// title turns a column's heading into a property's name.
func title(heading string) string {
	if len(heading) < 2 || heading == "CIDR" {
		return heading
	}
	return heading[:1] + strings.ToLower(heading[1:])
}

func article(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) {
		return "an"
	}
	return "a"
}
