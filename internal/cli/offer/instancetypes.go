package offer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// InstanceTypesCommand is `cloud instance-types`.
func InstanceTypesCommand(s *session.Session) *cobra.Command {
	var series string
	cmd := &cobra.Command{
		Use: "instance-types [TYPE]", Short: "List the sizes of machines, or show one",
		Args:              command.AtMostOne("TYPE"),
		ValidArgsFunction: Complete(s, InstanceTypes),
		RunE: func(cmd *cobra.Command, args []string) error {
			offered, err := s.Catalogue(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return show(s, offered, args[0])
			}
			return list(s, offered, series)
		},
	}
	cmd.Flags().StringVar(&series, "series", "", "only those of this `series`, such as u1")
	return cmd
}

func list(s *session.Session, offered *catalogue.Catalogue, series string) error {
	types := []catalogue.InstanceType{}
	view := output.View{}
	table := output.Table{Header: []string{"NAME", "VCPUS", "MEMORY", "SERIES", "CHARACTERISTICS"}}
	for _, t := range offered.InstanceTypes {
		if series != "" && t.Series() != series {
			continue
		}
		of, err := offered.SeriesOf(t)
		if err != nil {
			return err
		}
		types = append(types, t)
		view.Names = append(view.Names, t.Name)
		table.Rows = append(table.Rows, []string{t.Name, strconv.Itoa(int(t.VCPUs)), t.Memory.String(), of.Title, characteristics(of)})
	}
	if len(types) == 0 {
		var names []string
		for _, s := range offered.Series {
			names = append(names, s.Name)
		}
		return exit.NotFoundf("", "there is no series %q; there are %s", series, strings.Join(names, ", "))
	}
	view.Value, view.Table = types, []output.Section{{Table: table}}
	return s.Printer().Print(view)
}

func show(s *session.Session, offered *catalogue.Catalogue, name string) error {
	t, err := offered.InstanceType(name)
	if err != nil {
		return exit.With(exit.NotFound, "`cloud instance-types` lists them", err)
	}
	series, err := offered.SeriesOf(t)
	if err != nil {
		return err
	}
	return s.Printer().Print(output.View{
		Value: map[string]any{"name": t.Name, "vcpus": t.VCPUs, "memory": t.Memory, "series": series},
		Names: []string{t.Name},
		Table: []output.Section{{Table: output.Table{Rows: [][]string{
			{"Name:", t.Name}, {"vCPUs:", strconv.Itoa(int(t.VCPUs))}, {"Memory:", t.Memory.String()},
			{"Series:", fmt.Sprintf("%s (%s)", series.Name, series.Title)}, {"Description:", series.Description},
			{"Characteristics:", characteristics(series)}, {"Memory per vCPU:", series.MemoryPerVCPU.String() + " in the series"},
		}}}},
	})
}

func characteristics(series catalogue.Series) string {
	var words []string
	for _, characteristic := range series.Characteristics {
		words = append(words, string(characteristic))
	}
	return strings.Join(words, ", ")
}
