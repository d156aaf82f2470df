package hosted

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// kindTenant is the cluster's place in its datastore.
const kindTenant = "DatastoreTenant"

// inventory names everything that the cluster makes besides its node groups; the rest is in its namespace.
func (b *build) inventory() []v1alpha1.InventoryItem {
	return append(b.Inventory(), v1alpha1.InventoryItem{Kind: kindTenant, Name: b.Home})
}

// setInventory records what there is, without what is gone.
func (b *build) setInventory(gone ...string) { b.SetInventory(b.inventory(), gone...) }
