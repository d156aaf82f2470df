package azure

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestWhatWasLeftBehindHasAName(t *testing.T) {
	translatetest.Found(t, Finder("s"), map[string][3]string{
		"a group":   {"azurerm_resource_group", `{"name":"main"}`, "/subscriptions/s/resourceGroups/main"},
		"a network": {"azurerm_virtual_network", `{"name":"main","resource_group_name":"g"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/main"},
		"a subnet":  {"azurerm_subnet", `{"name":"a","resource_group_name":"g","virtual_network_name":"main"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/main/subnets/a"},
		"a cluster": {"azurerm_kubernetes_cluster", `{"name":"shop","resource_group_name":"g"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop"},
		"a pool":    {"azurerm_kubernetes_cluster_node_pool", `{"name":"a","kubernetes_cluster_id":"/c"}`, "/c/agentPools/a"},
		"a role":    {"azurerm_role_assignment", `{"scope":"/x"}`, ""},
	})
}
