package k8s

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func remove(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var force bool
	cmd := kind.DeleteWith(s, &resource.Deletion{
		Forgettable: true,
		Before: func(ctx context.Context, api client.Client, object client.Object) error {
			if !force {
				return nil
			}
			return resource.Annotate(ctx, api, object, v1alpha1.AnnotationForce, "true")
		},
	})
	cmd.Long = "delete removes a cluster and everything that was made for it, in order. With --force it goes on where machines or the\n" +
		"control plane are lost already.\n\n" + resource.ForgetHelp
	cmd.Flags().BoolVar(&force, "force", false, "go on without what is lost already")
	return cmd
}
