package hosted

import (
	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Kinds in the inventory that only hosted clusters have: the cluster's place in its datastore, and its API server as the
// identity service knows it.
const (
	kindTenant   = "DatastoreTenant"
	kindIdentity = "IdentityClient"
)

// inventory names everything that the cluster makes besides its node groups; the rest is in its namespace.
func (b *build) inventory() []v1alpha1.InventoryItem {
	items := append(b.Inventory(), v1alpha1.InventoryItem{Kind: kindTenant, Name: b.Home})
	if b.Identities != nil {
		items = append(items, v1alpha1.InventoryItem{Kind: kindIdentity, Name: b.identityName()})
	}
	return items
}

// setInventory records what there is, without what is gone.
func (b *build) setInventory(gone ...string) { b.SetInventory(b.inventory(), gone...) }

// identityName is that of the cluster's API server, as the identity service knows it.
func (b *build) identityName() string { return b.Project() + "." + b.Cluster.Name }
