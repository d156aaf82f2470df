package hosted

import (
	"context"

	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// Names in a cluster's namespace.
const (
	controlPlaneName = base.ServiceName // Deployment, Secret and PodDisruptionBudget have the same name as the Service
	pkiSecretName    = "pki"
)

// prepare makes the cluster's namespace, the daemon's permissions in it, and the walls around it.
func (b *build) prepare(ctx context.Context) error {
	if err := b.Prepare(ctx, b.policies); err != nil {
		return err
	}
	b.setInventory()
	return nil
}
