package azure

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestRules(t *testing.T) {
	const cluster = `{"private_cluster_enabled":false,"api_server_access_profile":[{"authorized_ip_ranges":["198.51.100.0/24"]}],"local_account_disabled":true,"role_based_access_control_enabled":true}`
	with := func(changes string) string { return translatetest.With(t, cluster, changes) }
	const account = `{"allow_nested_items_to_be_public":false,"https_traffic_only_enabled":true,"min_tls_version":"TLS1_2"}`
	const rule = `{"direction":"Inbound","access":"Allow","source_address_prefix":"10.0.0.0/8"}`
	translatetest.Rules(t, Rules(), map[string]translatetest.RuleCase{
		"a good cluster":    {Type: "azurerm_kubernetes_cluster", After: cluster},
		"a private cluster": {Type: "azurerm_kubernetes_cluster", After: with(`{"private_cluster_enabled":true,"api_server_access_profile":[]}`)},
		"an open cluster":   {Type: "azurerm_kubernetes_cluster", After: with(`{"api_server_access_profile":[]}`), Says: "open to everybody"},
		"open, as wished":   {Type: "azurerm_kubernetes_cluster", After: with(`{"api_server_access_profile":[]}`), Policy: terraform.Policy{OpenAPI: true}},
		"local accounts":    {Type: "azurerm_kubernetes_cluster", After: with(`{"local_account_disabled":false}`), Says: "directory"},
		"good storage":      {Type: "azurerm_storage_account", After: account},
		"public storage":    {Type: "azurerm_storage_account", After: translatetest.With(t, account, `{"allow_nested_items_to_be_public":true}`), Says: "public"},
		"old TLS":           {Type: "azurerm_storage_account", After: translatetest.With(t, account, `{"min_tls_version":"TLS1_0"}`), Says: "without encryption"},
		"a container":       {Type: "azurerm_storage_container", After: `{"container_access_type":"private"}`},
		"a public one":      {Type: "azurerm_storage_container", After: `{"container_access_type":"blob"}`, Says: "public"},
		"a good rule":       {Type: "azurerm_network_security_rule", After: rule},
		"an open rule":      {Type: "azurerm_network_security_rule", After: translatetest.With(t, rule, `{"source_address_prefix":"*"}`), Says: "everybody"},
		"outbound":          {Type: "azurerm_network_security_rule", After: translatetest.With(t, rule, `{"direction":"Outbound","source_address_prefix":"*"}`)},
	})
}
