package base

import (
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// Kinds in the inventory of every type.
const (
	KindNamespace = "Namespace"
	KindSecret    = "Secret"
)

// Inventory names everything that a cluster of any type makes besides its node groups and machines; the rest is in its
// namespace.
func (b *Build) Inventory() []v1alpha1.InventoryItem {
	return []v1alpha1.InventoryItem{
		{Kind: KindSecret, Name: v1alpha1.AdminKubeconfigSecret(b.Cluster.Name)},
		{Kind: KindNamespace, Name: b.Home},
	}
}

// SetInventory records what there is, without what is gone.
func (b *Build) SetInventory(items []v1alpha1.InventoryItem, gone ...string) {
	var left []string
	for _, item := range items {
		if !slices.Contains(gone, item.Kind) {
			left = append(left, item.Kind+"/"+item.Name)
		}
	}
	b.Scope.SetOutput(provisioner.OutputInventory, strings.Join(left, ","))
}
