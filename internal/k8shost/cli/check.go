package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

func checkCommand() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Tell what this host offers and what is missing",
		Long:  "check looks at the host, changes nothing, and ends with exit code 1 when something is missing that a node needs.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			facts, err := host.Detect(host.Options{DataDir: dataDir})
			if err != nil {
				return err
			}
			findings := host.Check(&facts)
			result := struct {
				Findings []host.Finding `json:"findings"`
				Facts    host.Facts     `json:"facts"`
				Settings host.Settings  `json:"settings"`
			}{findings, facts, facts.Settings()}
			if err := out.print(cmd.OutOrStdout(), result, func(w io.Writer) error { return findingsTable(w, findings) }); err != nil {
				return err
			}
			if host.AnyMissing(findings) {
				return errors.New("this host cannot run a node yet")
			}
			return nil
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}

func findingsTable(w io.Writer, findings []host.Finding) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "LEVEL\tNAME\tFOUND\tREMEDY")
	for _, f := range findings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Level, f.Name, f.What, f.Remedy)
	}
	return table.Flush()
}
