package k8s

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/terminal"
)

func ssh(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var tty bool
	cmd := &cobra.Command{
		Use: "ssh CLUSTER NODE [-- COMMAND...]", Short: "Open a shell on a node, or run a command there",
		Long: "ssh works on a node of a cluster over SSH, as root. The platform logs in, with a key that stays there, so that nothing but\n" +
			"the platform has to be reached from here. A command's exit code is that of this one.",
		Example: "  cloud k8s ssh dev-cluster dev-cluster-workers-x7k2p\n  cloud k8s ssh dev-cluster dev-cluster-workers-x7k2p -- journalctl -u kubelet -n 50",
		Args: func(cmd *cobra.Command, args []string) error {
			if named := cmd.ArgsLenAtDash(); len(args) < 2 || named >= 0 && named != 2 || named < 0 && len(args) != 2 {
				return exit.Usagef("give CLUSTER and NODE, and a command after --, as in `cloud k8s ssh dev-cluster NODE -- uptime`")
			}
			return nil
		},
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			machine, err := node(ctx, s, cluster, args[1])
			if err != nil {
				return err
			}
			return terminal.Open(ctx, s, machine, args[2:], tty)
		},
	}
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal, as a shell has")
	return cmd
}

// node is the machine that a node of the cluster is.
func node(ctx context.Context, s *session.Session, cluster *v1alpha1.Cluster, name string) (string, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return "", err
	}
	var machines v1alpha1.MachineList
	if err := api.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingFields{"spec.cluster": cluster.Name}); err != nil {
		return "", fmt.Errorf("list instances: %w", err)
	}
	var names []string
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Name == name || m.Status.NodeName == name || m.Status.Address == name {
			return m.Name, nil
		}
		names = append(names, m.Name)
	}
	return "", exit.NotFoundf(fmt.Sprintf("`cloud instance list --cluster %s` lists them", cluster.Name),
		"cluster %s has no node %q%s", cluster.Name, name, command.DidYouMean(name, names, ""))
}

func rotateSSHKey(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-ssh-key CLUSTER", Short: "Replace the SSH key to a cluster's machines",
		Long: "rotate-ssh-key has the platform make a new key to the machines of a cluster. The one before is forgotten as soon as all of\n" +
			"them know the new one; `cloud k8s events` tells. Hosts of an account of provider SSH have the account's key, which is\n" +
			"replaced by `cloud account set-key`.",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if cluster.Spec.Type != v1alpha1.ClusterKubeadm && cluster.Spec.Type != v1alpha1.ClusterK3s {
				return exit.Refusedf("", "machines of clusters of type %s have no SSH key", cluster.Spec.Type)
			}
			api, err := s.Client(ctx)
			if err != nil {
				return err
			}
			if err := resource.Annotate(ctx, api, cluster, v1alpha1.AnnotationRotateSSHKey, s.Now().UTC().Format(time.RFC3339Nano)); err != nil {
				return err
			}
			s.Note("a new SSH key for cluster %s is asked for", cluster.Name)
			return nil
		},
	}
}
