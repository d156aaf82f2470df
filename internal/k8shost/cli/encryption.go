package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/k8shost"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

func encryptionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets-encrypt",
		Short: "Show and rotate the key that Secrets are encrypted with",
		Long: "Secrets are encrypted in the datastore. Rotating the key adds a new one, encrypts every Secret with it, and drops\n" +
			"the old one, on all servers of the cluster, while it works.",
	}
	cmd.AddCommand(encryptionStatus(), encryptionRotate())
	return cmd
}

func encryptionStatus() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell which keys there are, how far a rotation is, and which servers know them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := k8shost.SecretsEncryption(cmd.Context(), datadir.New(dataDir))
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), status, func(w io.Writer) error { return encryptionTable(w, status) })
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}

func encryptionTable(w io.Writer, status k8shost.EncryptionStatus) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "Provider:\t%s\n", status.Provider)
	_, _ = fmt.Fprintf(table, "Writes with:\t%s\n", status.Key)
	_, _ = fmt.Fprintf(table, "Reads:\t%s\n", strings.Join(status.Keys, ", "))
	_, _ = fmt.Fprintf(table, "Stage:\t%s\n", status.Stage)
	for _, server := range status.Servers {
		state := "knows these keys"
		switch {
		case server.Error != "":
			state = "cannot be asked: " + server.Error
		case !server.Loaded:
			state = "works with other keys"
		}
		_, _ = fmt.Fprintf(table, "Server %s:\t%s\n", server.Name, state)
	}
	return table.Flush()
}

func encryptionRotate() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Encrypt all Secrets with a new key, and drop the old one",
		Long: "rotate-keys runs on one server, for all of the cluster. API servers look for new keys once a minute, so it takes a\n" +
			"few minutes, in which everything works. It may be interrupted at any point: run again, it goes on from there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := func(message string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), message) }
			result, err := k8shost.RotateSecretsKey(cmd.Context(), datadir.New(dataDir), report)
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), result, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d Secrets are encrypted with %s; %s dropped\n", result.Secrets, result.Key, strings.Join(result.Dropped, ", "))
				return err
			})
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}
