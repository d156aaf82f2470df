package cli

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and delete tokens that agents join with",
		Long: "The cluster's own token, which joins servers too, is in the server's data directory, in server/token.\n" +
			"Tokens made here join agents only, and expire.",
	}
	cmd.AddCommand(tokenCreate(), tokenList(), tokenDelete())
	return cmd
}

func tokenCreate() *cobra.Command {
	var dataDir string
	var options token.Options
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token and print it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, own, err := adminOf(dataDir)
			if err != nil {
				return err
			}
			made, err := token.Create(cmd.Context(), client, clock.RealClock{}, own.CAHash(), options)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), made.Format())
			return err
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().DurationVar(&options.TTL, "ttl", 24*time.Hour, "`time` after which the token is refused; 0 for never")
	cmd.Flags().StringVar(&options.Description, "description", "", "`text` that tells what the token is for")
	return cmd
}

func tokenList() *cobra.Command {
	var dataDir string
	var out output
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tokens, without their secrets",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, _, err := adminOf(dataDir)
			if err != nil {
				return err
			}
			tokens, err := token.List(cmd.Context(), client, clock.RealClock{})
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), tokens, func(w io.Writer) error { return tokenTable(w, tokens) })
		},
	}
	dataDirFlag(cmd, &dataDir)
	out.addFlag(cmd)
	return cmd
}

func tokenTable(w io.Writer, tokens []token.Info) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tEXPIRES\tDESCRIPTION")
	for _, t := range tokens {
		expires := "never"
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", t.ID, expires, t.Description)
	}
	return table.Flush()
}

func tokenDelete() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "delete ID…",
		Short: "Delete tokens: nobody joins with them any more",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			client, _, err := adminOf(dataDir)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := token.Delete(cmd.Context(), client, id); err != nil {
					return err
				}
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), "deleted")
			}
			return nil
		},
	}
	dataDirFlag(cmd, &dataDir)
	return cmd
}

// adminOf returns an administrator's client of the server in dataDir, and the cluster's own token.
func adminOf(dataDir string) (kubernetes.Interface, token.Token, error) {
	dir := datadir.New(dataDir)
	content, err := os.ReadFile(dir.Token())
	if err != nil {
		return nil, token.Token{}, fmt.Errorf("no server in %s: %w", dataDir, err)
	}
	own, err := token.Parse(string(content))
	if err != nil {
		return nil, token.Token{}, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		return nil, token.Token{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	return client, own, err
}
