package contexts

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func add(s *session.Session) *cobra.Command {
	var place config.Context
	var caFile string
	var replace bool
	cmd := &cobra.Command{
		Use: "add CONTEXT", Short: "Add an installation that runs elsewhere, and choose it",
		Long: "add remembers how to reach an installation: its management API and identity service, or the kubeconfig of an\n" +
			"administrator, who needs no login.",
		Example: "  cloud context add prod --server https://cloud.example.com:6443 --iam https://iam.example.com --ca-file ca.pem\n" +
			"  cloud context add lab --kubeconfig admin.conf",
		Args: command.Exactly("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			place.Name = args[0]
			place.Project = s.Flags.Project
			if err := complete(&place, caFile); err != nil {
				return err
			}
			store, err := s.Store()
			if err != nil {
				return err
			}
			err = store.Update(cmd.Context(), func(file *config.File) error {
				if file.Find(place.Name) != nil && !replace {
					return exit.Refusedf("give --replace, or another name", "there is a context %q already", place.Name)
				}
				file.Put(place)
				file.CurrentContext = place.Name
				return nil
			})
			if err != nil {
				return err
			}
			if replace { // what was good for another installation is good for nothing here
				if _, err := store.UpdateToken(cmd.Context(), place.Name, func(config.Token) (config.Token, error) { return config.Token{}, nil }); err != nil {
					return err
				}
			}
			s.Note("commands work with context %s now", place.Name)
			if place.Kubeconfig == "" {
				s.Note("log in with `cloud login`")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&place.Server, "server", "", "`URL` of the management API")
	cmd.Flags().StringVar(&place.IAM, "iam", "", "`URL` of the identity service")
	cmd.Flags().StringVar(&caFile, "ca-file", "", "`file` with the certificates, in PEM, that both are known by; the system's where it is not given")
	cmd.Flags().StringVar(&place.Kubeconfig, "kubeconfig", "", "`file` with an administrator's credentials, instead of --server and a login")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the context of this name")
	return cmd
}

// complete reads what files were named, and checks the whole.
func complete(place *config.Context, caFile string) error {
	if caFile != "" {
		content, err := os.ReadFile(caFile)
		if err != nil {
			return exit.Usagef("--ca-file: %w", err)
		}
		place.CA = string(content)
	}
	if place.Kubeconfig != "" {
		path, err := filepath.Abs(place.Kubeconfig)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return exit.Usagef("--kubeconfig: %w", err)
		}
		place.Kubeconfig = path
	}
	if place.Server != "" && place.IAM == "" {
		return exit.Usagef("--iam is missing: without the identity service nobody can log in")
	}
	if place.Kubeconfig != "" && place.CA != "" && place.IAM == "" {
		return exit.Usagef("--ca-file: the kubeconfig says which authority to trust; this is for --iam")
	}
	if err := place.Validate(); err != nil {
		return exit.With(exit.Usage, "", fmt.Errorf("add context: %w", err))
	}
	return nil
}
