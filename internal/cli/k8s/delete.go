package k8s

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func remove(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var force bool
	cmd := kind.DeleteWith(s, &resource.Deletion{
		Before: func(ctx context.Context, api client.Client, object client.Object) error {
			if !force {
				return nil
			}
			return annotate(ctx, api, object, v1alpha1.AnnotationForce, "true")
		},
	})
	cmd.Long = "delete removes a cluster and everything that was made for it, in order. With --force it goes on where machines or the\n" +
		"control plane are lost already."
	cmd.Flags().BoolVar(&force, "force", false, "go on without what is lost already")
	return cmd
}

// annotate asks something of an object that its spec has no field for.
func annotate(ctx context.Context, api client.Client, object client.Object, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := api.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("annotate %s: %w", object.GetName(), err)
	}
	return nil
}
