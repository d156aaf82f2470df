package auth

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/kubeconfig"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kubeconfig is the command.
func Kubeconfig(s *session.Session) *cobra.Command {
	var management, merge bool
	cmd := &cobra.Command{
		Use: "kubeconfig --management", Short: "Print a kubeconfig for the management API",
		Long: "kubeconfig lets kubectl use the session of `cloud login` with the management API: it runs `cloud credential`, so that\n" +
			"no secret is in it. For one of a cluster see `cloud k8s kubeconfig`.",
		Example: "  cloud kubeconfig --management > management.yaml\n  kubectl --kubeconfig management.yaml get clusters",
		Args:    command.None,
		RunE: func(*cobra.Command, []string) error {
			if !management {
				return exit.With(exit.Usage, "for a cluster's, use `cloud k8s kubeconfig CLUSTER`", fmt.Errorf("--management is missing"))
			}
			chosen, err := s.Context()
			if err != nil {
				return err
			}
			made, err := ofContext(s, chosen)
			if err != nil {
				return err
			}
			if merge {
				path, err := kubeconfig.Path(s.Env)
				if err != nil {
					return err
				}
				if err := kubeconfig.Merge(path, made); err != nil {
					return fmt.Errorf("merge kubeconfig: %w", err)
				}
				s.Note("context %s is in %s, and current", made.CurrentContext, path)
				return nil
			}
			content, err := clientcmd.Write(*made)
			if err != nil {
				return err
			}
			_, err = s.Out.Write(content)
			return err
		},
	}
	cmd.Flags().BoolVar(&management, "management", false, "the management API's, which is the only one there is here")
	cmd.Flags().BoolVar(&merge, "merge", false, "put it into the file that kubectl reads, and make it current there")
	return cmd
}

// ofContext is the kubeconfig of a context.
func ofContext(s *session.Session, chosen *config.Context) (*api.Config, error) {
	name := "plasmacloud-" + chosen.Name
	if chosen.Kubeconfig != "" {
		existing, err := clientcmd.LoadFromFile(chosen.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig of context %s: %w", chosen.Name, err)
		}
		if err := clientcmd.ResolveLocalPaths(existing); err != nil {
			return nil, err
		}
		return kubeconfig.Rename(existing, name)
	}
	made := api.NewConfig()
	made.Clusters[name] = &api.Cluster{Server: chosen.Server, CertificateAuthorityData: []byte(chosen.CA)}
	made.AuthInfos[name] = kubeconfig.Plugin(s.Executable, "credential", "--context", chosen.Name)
	place := &api.Context{Cluster: name, AuthInfo: name}
	if project, err := s.Project(); err == nil {
		place.Namespace = v1alpha1.NamespacePrefix + project
	}
	made.Contexts[name] = place
	made.CurrentContext = name
	return made, nil
}
