package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/distro/module"
)

func newList(o *options) *cobra.Command {
	var format string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the Kubernetes versions that this tree builds",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			minors, err := module.Scan(o.distroDir())
			if err != nil {
				return err
			}
			switch format {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(minors)
			case "table":
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(table, "MINOR\tVERSION\tMODULE")
				for _, minor := range minors {
					fmt.Fprintf(table, "%s\t%s\t%s\n", minor.Name, minor.Version, minor.Dir)
				}
				return table.Flush()
			default:
				return fmt.Errorf("unknown output format %q: use table or json", format)
			}
		},
	}
	list.Flags().StringVarP(&format, "output-format", "o", "table", "table or json")
	return list
}
