package k8s

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	files "plasmacloud.io/plasmacloud/internal/cli/kubeconfig"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func kubeconfig(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var superAdmin, internal, merge bool
	var role string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "kubeconfig CLUSTER", Short: "Print the kubeconfig of a cluster",
		Long: "kubeconfig prints the administrator's kubeconfig of a cluster. It is a secret: keep the file to yourself, or put it where\n" +
			"kubectl looks with --merge. With --role or --ttl the cluster issues one that is good for that role, and that time, only.\n" +
			"That of a cluster in a cloud holds no secret: it runs `cloud credential`, which has a token made from the credentials of\n" +
			"the cluster's account whenever one is needed.",
		Example: "  cloud k8s kubeconfig dev-cluster > kubeconfig.yaml\n  cloud k8s kubeconfig dev-cluster --merge && kubectl get nodes\n" +
			"  cloud k8s kubeconfig dev-cluster --role view --ttl 1h > viewer.yaml",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := checkTTL(ttl); err != nil {
				return err
			}
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if cluster.Spec.Type.InCloud() {
				return ofCloud(cmd, s, cluster, merge)
			}
			content, err := stored(ctx, s, cluster, key(superAdmin, internal))
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("role") || cmd.Flags().Changed("ttl") {
				user, err := userName(ctx, s)
				if err != nil {
					return err
				}
				if content, err = shortLived(ctx, content, user, role, ttl); err != nil {
					return err
				}
			}
			return hand(s, cluster, content, merge)
		},
	}
	cmd.Flags().BoolVar(&superAdmin, "super-admin", false, "with more permissions, for troubleshooting")
	cmd.Flags().BoolVar(&internal, "internal", false, "with the address that is good inside of the management cluster")
	command.Choice(cmd, cmd.Flags(), &role, "role", "", "cluster-admin", "issue a short-lived one for this role", slices.Sorted(maps.Keys(roleGroups()))...)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "issue a short-lived one, good for this `time`")
	cmd.MarkFlagsMutuallyExclusive("role", "super-admin")
	cmd.Flags().BoolVar(&merge, "merge", false, "put it into the file that kubectl reads, and make it current there")
	return cmd
}

// hand prints a kubeconfig, or puts it where kubectl looks.
func hand(s *session.Session, cluster *v1alpha1.Cluster, content []byte, merge bool) error {
	if merge {
		return merged(s, cluster, content)
	}
	_, err := s.Out.Write(content)
	return err
}

// key of the Secret that holds the kubeconfigs.
func key(superAdmin, internal bool) string {
	name, ending := "admin", "conf"
	if superAdmin {
		name = "super-admin"
	}
	if internal {
		ending = "svc"
	}
	return name + "." + ending
}

// stored is the kubeconfig that the platform keeps for a cluster.
func stored(ctx context.Context, s *session.Session, cluster *v1alpha1.Cluster, key string) ([]byte, error) {
	if err := Require(ctx, s, cluster.Spec.Type, catalogue.CanKubeconfig, "hand out kubeconfigs of clusters"); err != nil {
		return nil, err
	}
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	name := cluster.Status.KubeconfigSecret
	if name == "" {
		name = v1alpha1.AdminKubeconfigSecret(cluster.Name)
	}
	secret := &corev1.Secret{}
	err = api.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	if apierrors.IsNotFound(err) || len(secret.Data[key]) == 0 {
		return nil, exit.NotFoundf(fmt.Sprintf("`cloud k8s get %s` shows how far it is", cluster.Name),
			"cluster %s has no kubeconfig %s yet; it is %s", cluster.Name, key, cluster.Status.Phase)
	}
	return secret.Data[key], nil
}

// merged puts a kubeconfig where kubectl looks.
func merged(s *session.Session, cluster *v1alpha1.Cluster, content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return fmt.Errorf("read the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	project, err := s.Project()
	if err != nil {
		return err
	}
	renamed, err := files.Rename(config, cluster.Name+"@"+project)
	if err != nil {
		return err
	}
	path, err := files.Path(s.Env)
	if err != nil {
		return err
	}
	if err := files.Merge(path, renamed); err != nil {
		return fmt.Errorf("merge kubeconfig: %w", err)
	}
	s.Note("context %s is in %s, and current", renamed.CurrentContext, path)
	return nil
}
