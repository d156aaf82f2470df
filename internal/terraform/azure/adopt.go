package azure

import (
	"context"
	"fmt"

	"plasmacloud.io/plasmacloud/internal/terraform"
)

// collections are the types by where they are in a resource group.
var collections = map[string]string{
	"azurerm_virtual_network": "Microsoft.Network/virtualNetworks", "azurerm_network_security_group": "Microsoft.Network/networkSecurityGroups",
	"azurerm_public_ip": "Microsoft.Network/publicIPAddresses", "azurerm_nat_gateway": "Microsoft.Network/natGateways",
	"azurerm_user_assigned_identity": "Microsoft.ManagedIdentity/userAssignedIdentities", "azurerm_kubernetes_cluster": "Microsoft.ContainerService/managedClusters",
	"azurerm_storage_account": "Microsoft.Storage/storageAccounts",
}

// Finder finds what was left behind in Azure: everything there has a name of our choice.
func Finder(subscription string) terraform.Finder {
	return terraform.FinderFunc(func(_ context.Context, _ string, missing []terraform.Change) (map[string]string, error) {
		found := map[string]string{}
		for _, change := range missing {
			if id := identity(change, subscription); id != "" {
				found[change.Address] = id
			}
		}
		return found, nil
	})
}

func identity(change terraform.Change, subscription string) string {
	r := change.Planned()
	name, group := r.Text("name"), r.Text("resource_group_name")
	prefix := fmt.Sprintf("/subscriptions/%s/resourceGroups/", subscription)
	switch {
	case change.Type == "azurerm_resource_group":
		return prefix + name
	case collections[change.Type] != "" && group != "":
		return fmt.Sprintf("%s%s/providers/%s/%s", prefix, group, collections[change.Type], name)
	case change.Type == "azurerm_subnet" && group != "":
		return fmt.Sprintf("%s%s/providers/Microsoft.Network/virtualNetworks/%s/subnets/%s", prefix, group, r.Text("virtual_network_name"), name)
	case change.Type == "azurerm_kubernetes_cluster_node_pool" && r.Text("kubernetes_cluster_id") != "":
		return r.Text("kubernetes_cluster_id") + "/agentPools/" + name
	}
	return attached(change.Type, r)
}

// attached is the ID of what belongs to another resource, whose ID is known once that is adopted.
func attached(kind string, r terraform.Resource) string {
	under := func(owner, collection string) string {
		if r.Text(owner) == "" {
			return ""
		}
		return r.Text(owner) + collection + r.Text("name")
	}
	switch kind {
	case "azurerm_subnet_nat_gateway_association", "azurerm_subnet_network_security_group_association":
		return r.Text("subnet_id")
	case "azurerm_nat_gateway_public_ip_association":
		if r.Text("nat_gateway_id") != "" && r.Text("public_ip_address_id") != "" {
			return r.Text("nat_gateway_id") + "|" + r.Text("public_ip_address_id")
		}
	case "azurerm_role_assignment":
		return under("scope", "/providers/Microsoft.Authorization/roleAssignments/")
	case "azurerm_federated_identity_credential":
		return under("user_assigned_identity_id", "/federatedIdentityCredentials/")
	case "azurerm_storage_container":
		return under("storage_account_id", "/blobServices/default/containers/")
	}
	return ""
}
