package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd-snapshot",
		Short: "Save, list and delete snapshots of the cluster's data",
		Long: "A snapshot holds all of the cluster's objects and, sealed with the cluster's token, its certificates.\n" +
			"It is restored with `k8shost server --cluster-reset --cluster-reset-restore-path FILE`.",
	}
	cmd.AddCommand(snapshotSave(), snapshotList(), snapshotDelete())
	return cmd
}

func snapshotSave() *cobra.Command {
	var dataDir, name string
	var out output
	cmd := &cobra.Command{
		Use:   "save [--name NAME]",
		Short: "Save a snapshot of the running cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				name = "snapshot-" + time.Now().UTC().Format("20060102-150405")
			}
			snapshot, err := k8shost.SaveSnapshot(cmd.Context(), datadir.New(dataDir), name)
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), snapshot, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "saved %s (%d bytes)\n", snapshot.Path, snapshot.Size)
				return err
			})
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVar(&name, "name", "", "`name` of the snapshot; by default one with the time in it")
	out.addFlag(cmd)
	return cmd
}

func snapshotList() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List snapshots, newest first",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			snapshots, err := etcd.List(datadir.New(dataDir).Snapshots())
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), snapshots, func(w io.Writer) error {
				table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				_, _ = fmt.Fprintln(table, "NAME\tSIZE\tCREATED\tPATH")
				for _, s := range snapshots {
					_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", s.Name, s.Size, s.Created.Format(time.RFC3339), s.Path)
				}
				return table.Flush()
			})
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}

func snapshotDelete() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "delete NAME…",
		Short: "Delete snapshots",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			for _, name := range names {
				if err := etcd.Delete(datadir.New(dataDir).Snapshots(), name); err != nil {
					return err
				}
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), "deleted", name)
			}
			return nil
		},
	}
	dataDirFlag(cmd, &dataDir)
	return cmd
}
