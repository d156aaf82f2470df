package resource

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/manifest"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Filter is a flag of a list that narrows it to one value of a field.
type Filter struct {
	Flag, Usage string
	Field       string // as the API selects by it
	value       string
}

// List is the command that lists the kind's objects.
func (k *Kind[T]) List(s *session.Session, filters ...*Filter) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List " + k.Plural,
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var opts []client.ListOption
			if !everywhere {
				namespace, err := k.namespace(s)
				if err != nil {
					return err
				}
				opts = append(opts, client.InNamespace(namespace))
			}
			selected := client.MatchingFields{}
			for _, filter := range filters {
				if filter.value != "" {
					selected[filter.Field] = filter.value
				}
			}
			if len(selected) > 0 {
				opts = append(opts, selected)
			}
			items, err := k.Items(cmd.Context(), s, opts...)
			if err != nil {
				return err
			}
			return k.Print(s, items, everywhere)
		},
	}
	if !k.Global {
		cmd.Flags().BoolVarP(&everywhere, "all-projects", "A", false, "list those of all projects")
	}
	for _, filter := range filters {
		cmd.Flags().StringVar(&filter.value, filter.Flag, "", filter.Usage)
	}
	return cmd
}

// Print writes a list of the kind's objects, by project and name.
func (k *Kind[T]) Print(s *session.Session, items []T, everywhere bool) error {
	slices.SortFunc(items, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	if len(items) == 0 && s.Flags.Output == output.FormatTable {
		s.Note("%s", k.none(s, everywhere))
		return nil
	}
	view := output.View{Names: []string{}}
	shown := make([]any, 0, len(items))
	for _, item := range items {
		object, err := manifest.Show(item, k.GVK())
		if err != nil {
			return err
		}
		shown = append(shown, object)
		view.Names = append(view.Names, item.GetName())
	}
	view.Value = map[string]any{"apiVersion": "v1", "kind": "List", "items": shown}
	view.Table = []output.Section{{Table: k.table(s, items, everywhere)}}
	return s.Printer().Print(view)
}

func (k *Kind[T]) none(s *session.Session, everywhere bool) string {
	if k.Global || everywhere {
		return fmt.Sprintf("there are no %s", k.Plural)
	}
	project, _ := s.Project() // it was found before
	return fmt.Sprintf("there are no %s in project %s", k.Plural, project)
}

func (k *Kind[T]) table(s *session.Session, items []T, everywhere bool) output.Table {
	var table output.Table
	if everywhere {
		table.Header = append(table.Header, "PROJECT")
	}
	table.Header = append(table.Header, "NAME")
	for _, column := range k.Columns {
		table.Header = append(table.Header, column.Name)
	}
	now := s.Now()
	for _, item := range items {
		var row []string
		if everywhere {
			row = append(row, projectOf(item))
		}
		row = append(row, item.GetName())
		for _, column := range k.Columns {
			row = append(row, column.Value(item, now))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
