package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// bucket checks that there is a cluster in a cloud that a bucket can be for.
func bucket(ctx context.Context, q *question, object, _ *v1alpha1.Bucket) error {
	if !q.creates() {
		return nil // the cluster cannot change
	}
	if err := q.atHome(ctx, "Bucket", object); err != nil {
		return err
	}
	at := field.NewPath("spec", "cluster")
	owner := &v1alpha1.Cluster{}
	wrong, err := q.parent(ctx, at, object.Namespace, object.Spec.Cluster, owner, "create it with `cloud k8s create`, or name another one")
	if err == nil && wrong == nil && !owner.Spec.Type.InCloud() {
		wrong = field.Invalid(at, object.Spec.Cluster, fmt.Sprintf("it is of type %s, and buckets are made in clouds; name a cluster of type EKS, GKE or AKS", owner.Spec.Type))
	}
	return orInvalid(err, "Bucket", object, wrong)
}
