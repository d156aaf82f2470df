package hosted

import (
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// Kinds in the inventory.
const (
	kindNamespace = "Namespace"
	kindTenant    = "DatastoreTenant"
	kindIdentity  = "IdentityClient"
	kindSecret    = "Secret"
)

// inventory names everything that the cluster makes besides its node groups; the rest is in its namespace.
func (b *build) inventory() []v1alpha1.InventoryItem {
	items := []v1alpha1.InventoryItem{
		{Kind: kindTenant, Name: b.namespace},
		{Kind: kindSecret, Name: v1alpha1.AdminKubeconfigSecret(b.cluster.Name)},
		{Kind: kindNamespace, Name: b.namespace},
	}
	if b.Identities != nil {
		items = append(items, v1alpha1.InventoryItem{Kind: kindIdentity, Name: b.identityName()})
	}
	return items
}

// setInventory records what there is, without what is gone.
func (b *build) setInventory(gone ...string) {
	var left []string
	for _, item := range b.inventory() {
		removed := false
		for _, kind := range gone {
			removed = removed || item.Kind == kind
		}
		if !removed {
			left = append(left, item.Kind+"/"+item.Name)
		}
	}
	b.scope.SetOutput(provisioner.OutputInventory, strings.Join(left, ","))
}
