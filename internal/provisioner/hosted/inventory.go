package hosted

import (
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// OutputInventory is what a cluster has made outside itself, each as Kind/name, separated by commas. It is set when the
// first of it is about to be made, and shrinks as a deletion goes on; it is empty when nothing is left.
const OutputInventory = "inventory"

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
	b.scope.SetOutput(OutputInventory, strings.Join(left, ","))
}
