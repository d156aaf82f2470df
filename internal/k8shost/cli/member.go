package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
)

// quorumCode is the exit code of a removal that was refused for the sake of the quorum, for programs to tell.
const quorumCode = 3

func memberCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd-member",
		Short: "List the members of the cluster's etcd, and remove those of lost servers",
	}
	cmd.AddCommand(memberList(), memberRemove())
	return cmd
}

func memberList() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List members, and how they are",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			members, err := k8shost.Members(cmd.Context(), datadir.New(dataDir))
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), members, func(w io.Writer) error { return memberTable(w, members) })
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}

func memberTable(w io.Writer, members []etcd.MemberStatus) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tID\tPEER\tSTATE")
	for _, m := range members {
		state := m.Error
		switch {
		case m.Leader:
			state = "leader"
		case m.Learner && m.Healthy:
			state = "learner"
		case m.Healthy:
			state = "healthy"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.Name, m.ID, m.PeerURL, state)
	}
	return table.Flush()
}

func memberRemove() *cobra.Command {
	var dataDir string
	var force bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove the member of a server that is lost, by its node's name",
		Long: "remove takes the etcd member of a server out of the cluster, so that the others need not count it any more.\n" +
			"It refuses, with exit code 3, where those that are left and well would be no majority. A server that is no\n" +
			"member is no error. Remove its node too: `k8shost kubectl delete node NODE`.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			removed, err := k8shost.RemoveMember(cmd.Context(), datadir.New(dataDir), args[0], force)
			for _, name := range removed {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), "removed", name)
			}
			if errors.Is(err, etcd.ErrQuorum) {
				return exitError{error: err, code: quorumCode}
			}
			return err
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().BoolVar(&force, "force", false, "do not look whether a majority is left")
	return cmd
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }
