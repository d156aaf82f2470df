package azure

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestWhatWasLeftBehindHasAName(t *testing.T) {
	translatetest.Found(t, Finder("s"), map[string][3]string{
		"a group":                        {"azurerm_resource_group", `{"name":"main"}`, "/subscriptions/s/resourceGroups/main"},
		"a network":                      {"azurerm_virtual_network", `{"name":"main","resource_group_name":"g"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/main"},
		"a subnet":                       {"azurerm_subnet", `{"name":"a","resource_group_name":"g","virtual_network_name":"main"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/main/subnets/a"},
		"a cluster":                      {"azurerm_kubernetes_cluster", `{"name":"shop","resource_group_name":"g"}`, "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop"},
		"a pool":                         {"azurerm_kubernetes_cluster_node_pool", `{"name":"a","kubernetes_cluster_id":"/c"}`, "/c/agentPools/a"},
		"a role":                         {"azurerm_role_assignment", `{"scope":"/x","name":"n"}`, "/x/providers/Microsoft.Authorization/roleAssignments/n"},
		"a role of what is not there":    {"azurerm_role_assignment", `{"name":"n"}`, ""},
		"a gateway's address":            {"azurerm_nat_gateway_public_ip_association", `{"nat_gateway_id":"/g","public_ip_address_id":"/a"}`, "/g|/a"},
		"a gateway's address, too early": {"azurerm_nat_gateway_public_ip_association", `{"nat_gateway_id":"/g"}`, ""},
		"a subnet's gateway":             {"azurerm_subnet_nat_gateway_association", `{"subnet_id":"/s"}`, "/s"},
		"a subnet's rules":               {"azurerm_subnet_network_security_group_association", `{"subnet_id":"/s"}`, "/s"},
		"a credential":                   {"azurerm_federated_identity_credential", `{"user_assigned_identity_id":"/i","name":"n"}`, "/i/federatedIdentityCredentials/n"},
		"a container":                    {"azurerm_storage_container", `{"storage_account_id":"/s","name":"n"}`, "/s/blobServices/default/containers/n"},
	})
}
