package k8s

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func upgrade(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var u resource.Upgrading
	var version string
	cmd := &cobra.Command{
		Use: "upgrade CLUSTER", Short: "Bring a cluster to another version of Kubernetes",
		Long: "upgrade brings the control plane and the nodes of a cluster to another version of Kubernetes: `cloud versions` lists them.\n" +
			"A cluster in a cloud can be brought to another infra version too, which is what the platform makes there, and how; `cloud\n" +
			"k8s plan` tells before what would change. Where something would be lost it is refused, unless that is agreed to by name\n" +
			"with --agree-to.",
		Example:           "  cloud k8s upgrade dev-cluster --version v1.36 --wait\n  cloud k8s upgrade shop --infra-version v1.1.0",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version == "" && u.InfraVersion == "" {
				return exit.Usagef("--version is missing")
			}
			if err := u.Waiting.Check(cmd); err != nil {
				return err
			}
			cluster, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if err := Require(cmd.Context(), s, cluster.Spec.Type, catalogue.CanUpgrade, "upgrade clusters"); err != nil {
				return err
			}
			if u.InfraVersion != "" && !cluster.Spec.Type.InCloud() {
				return exit.Usagef("--infra-version is for clusters of type EKS, GKE and AKS; %s is of type %s", cluster.Name, cluster.Spec.Type)
			}
			versions := map[string]string{}
			if version != "" {
				versions["version"] = version
			}
			return kind.Upgrade(cmd.Context(), s, cluster, versions, &u)
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "Kubernetes `version`, such as v1.36")
	u.AddTo(cmd)
	return cmd
}
