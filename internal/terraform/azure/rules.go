package azure

import "plasmacloud.io/plasmacloud/internal/terraform"

// Rules are what a plan for Azure has to keep.
func Rules() []terraform.Rule {
	return []terraform.Rule{
		{Type: "azurerm_kubernetes_cluster", Check: closedAPI},
		{Type: "azurerm_kubernetes_cluster", Check: noLocalAccounts},
		{Type: "azurerm_storage_account", Check: closedStorage},
		{Type: "azurerm_storage_container", Check: closedContainer},
		{Type: "azurerm_network_security_rule", Check: closedGroup},
	}
}

func closedAPI(cluster terraform.Resource, policy terraform.Policy) string {
	if cluster.Flag("private_cluster_enabled") || policy.OpenAPI {
		return ""
	}
	profile := cluster.Block("api_server_access_profile")
	cidrs := profile.Texts("authorized_ip_ranges")
	if len(cidrs) == 0 || !profile.Known("authorized_ip_ranges") || terraform.Everybody(cidrs) {
		return "its API would be open to everybody; name the ranges that may reach it, or 0.0.0.0/0 if that is meant"
	}
	return ""
}

func noLocalAccounts(cluster terraform.Resource, _ terraform.Policy) string {
	if !cluster.Flag("local_account_disabled") || !cluster.Flag("role_based_access_control_enabled") {
		return "it would have accounts that the directory knows nothing of"
	}
	return ""
}

func closedStorage(account terraform.Resource, _ terraform.Policy) string {
	switch {
	case account.Flag("allow_nested_items_to_be_public"):
		return "it could be made public"
	case !account.Flag("https_traffic_only_enabled"), account.Text("min_tls_version") != "TLS1_2" && account.Text("min_tls_version") != "TLS1_3":
		return "it would be reachable without encryption"
	}
	return ""
}

func closedContainer(container terraform.Resource, _ terraform.Policy) string {
	if container.Text("container_access_type") != "private" {
		return "it would be public"
	}
	return ""
}

func closedGroup(rule terraform.Resource, _ terraform.Policy) string {
	inbound := rule.Text("direction") == "Inbound" && rule.Text("access") == "Allow"
	if inbound && terraform.Everybody(append(rule.Texts("source_address_prefixes"), rule.Text("source_address_prefix"))) {
		return "it would let everybody in"
	}
	return ""
}
