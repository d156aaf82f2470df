package machines

import (
	"context"

	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// removeNodes removes all machines, the control plane's too: whoever gave them cleans them.
func (b *build) removeNodes(ctx context.Context) error { return b.RemoveNodes(ctx) }

// removeIdentity removes the administrator's kubeconfigs.
func (b *build) removeIdentity(ctx context.Context) error {
	if err := b.RemoveKubeconfigs(ctx); err != nil {
		return err
	}
	b.SetInventory(b.Inventory(), base.KindSecret)
	return nil
}

// removeNamespace removes what is left.
func (b *build) removeNamespace(ctx context.Context) error {
	if err := b.RemoveNamespace(ctx); err != nil {
		return err
	}
	b.SetInventory(b.Inventory(), base.KindSecret, base.KindNamespace)
	return nil
}
