package k8s

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	files "plasmacloud.io/plasmacloud/internal/cli/kubeconfig"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// ofCloud hands out the kubeconfig of a cluster in a cloud, in which there is no secret: kubectl has this program ask for
// tokens.
func ofCloud(cmd *cobra.Command, s *session.Session, cluster *v1alpha1.Cluster, merge bool) error {
	ctx := cmd.Context()
	if err := Require(ctx, s, cluster.Spec.Type, catalogue.CanKubeconfig, "hand out kubeconfigs of clusters"); err != nil {
		return err
	}
	for _, flag := range []string{"role", "ttl", "super-admin", "internal"} {
		if cmd.Flags().Changed(flag) {
			return exit.Usagef("--%s: cluster %s is of type %s, whose tokens the cloud makes; they are the account's own, for some minutes", flag, cluster.Name, cluster.Spec.Type)
		}
	}
	if cluster.Status.Endpoint == "" {
		return exit.NotFoundf(fmt.Sprintf("`cloud k8s get %s` shows how far it is", cluster.Name),
			"cluster %s has no kubeconfig yet; it is %s", cluster.Name, cluster.Status.Phase)
	}
	access, err := s.ClusterAccess(ctx, cluster.Name)
	if err != nil {
		return err
	}
	chosen, err := s.Context()
	if err != nil {
		return err
	}
	project, err := s.Project()
	if err != nil {
		return err
	}
	made, name := api.NewConfig(), cluster.Name
	made.Clusters[name] = &api.Cluster{Server: access.Server, CertificateAuthorityData: []byte(access.CA)}
	made.AuthInfos[name] = files.Plugin(s.Executable, "credential", "--context", chosen.Name, "--project", project, "--cluster", cluster.Name)
	made.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	made.CurrentContext = name
	content, err := clientcmd.Write(*made)
	if err != nil {
		return err
	}
	return hand(s, cluster, content, merge)
}
