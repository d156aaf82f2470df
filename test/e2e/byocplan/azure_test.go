//go:build e2e

package byocplan

import (
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

func azureStack(kind string) azure.Stack {
	return azure.Stack{Name: "team." + kind, InfraVersion: "v1.0.0", Account: byoclab.AzureAccount()}
}

func TestAzureNetworks(t *testing.T) {
	cloud, stub := byoclab.New(t, time.Second).Azure(t, 0)
	with := func(options azure.NetworkOptions) planned {
		t.Helper()
		variables, err := azure.Network(azureStack("network"), byoclab.Network(), options)
		return plan(t, cloud, "v1.0.0", configuration.Network, variables, err, azure.Rules())
	}
	p := with(azure.NetworkOptions{})
	p.has(map[string]int{"azurerm_resource_group": 1, "azurerm_virtual_network": 1, "azurerm_subnet": 1, "azurerm_nat_gateway": 1, "azurerm_public_ip": 1, "azurerm_network_security_group": 1, "azurerm_subnet_nat_gateway_association": 1})
	p.is("azurerm_virtual_network.this", map[string]string{"address_space": "10.0.0.0/16", "location": "westeurope"})
	p.is(`azurerm_subnet.this["nodes"]`, map[string]string{"default_outbound_access_enabled": ""})
	if tags := p.resource("azurerm_virtual_network.this").Map("tags"); tags["plasmacloud-stack"] != "team.network" {
		t.Errorf("the network's tags are %v", tags)
	}
	with(azure.NetworkOptions{NATZone: "2"}).is("azurerm_nat_gateway.this[0]", map[string]string{"zones": "2"})
	with(azure.NetworkOptions{NoNAT: true}).has(map[string]int{"azurerm_nat_gateway": 0, "azurerm_public_ip": 0, "azurerm_subnet": 1})
	if made := stub.Created(); len(made) > 0 {
		t.Errorf("planning has made %v", made)
	}
}

const aksCluster = "azurerm_kubernetes_cluster.this"

func azureNetwork() *azure.NetworkOutputs {
	return &azure.NetworkOutputs{NATAddresses: []string{"203.0.113.9"}, Subnets: map[string]azure.Placed{"nodes": {
		ID: "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/main/providers/Microsoft.Network/virtualNetworks/main/subnets/nodes", Role: v1alpha1.SubnetPrivate,
	}}}
}

func TestAzureClusters(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).Azure(t, 0)
	with := func(cluster *v1alpha1.Cluster, made *azure.NetworkOutputs, options azure.ClusterOptions) planned {
		t.Helper()
		variables, err := azure.Cluster(azureStack("cluster"), cluster, byoclab.Network(), made, options)
		return plan(t, cloud, "v1.0.0", configuration.Cluster, variables, err, azure.Rules())
	}
	p := with(byoclab.Cluster(v1alpha1.ClusterAKS, 3), azureNetwork(), azure.ClusterOptions{})
	p.has(map[string]int{"azurerm_kubernetes_cluster": 1, "azurerm_user_assigned_identity": 1, "azurerm_role_assignment": 1, "azurerm_kubernetes_cluster_node_pool": 0})
	p.is(aksCluster, map[string]string{
		"kubernetes_version": "1.35", "sku_tier": "Standard", "local_account_disabled": "true", "oidc_issuer_enabled": "true", "workload_identity_enabled": "true", "private_cluster_enabled": "",
		"network_profile.network_data_plane": "cilium", "network_profile.network_plugin_mode": "overlay", "network_profile.outbound_type": "userAssignedNATGateway", "network_profile.dns_service_ip": "10.96.0.10",
		"api_server_access_profile.authorized_ip_ranges": "198.51.100.0/24", "azure_active_directory_role_based_access_control.azure_rbac_enabled": "true",
		"node_provisioning_profile.mode": "Manual", "default_node_pool.node_count": "3", "default_node_pool.vm_size": "Standard_D2s_v5", "default_node_pool.zones": "1,2,3",
	})

	private := byoclab.Cluster(v1alpha1.ClusterAKS, 2)
	private.Spec.Access.CIDRs = nil
	withoutNAT := azureNetwork()
	withoutNAT.NATAddresses = nil
	p = with(private, withoutNAT, azure.ClusterOptions{AutoProvisioning: true, FreeTier: true, Zones: []string{"1"}, AdminGroups: []string{"00000000-0000-0000-0000-000000000001"}})
	p.is(aksCluster, map[string]string{
		"private_cluster_enabled": "true", "sku_tier": "Free", "network_profile.outbound_type": "loadBalancer", "node_provisioning_profile.mode": "Auto", "default_node_pool.zones": "1",
		"azure_active_directory_role_based_access_control.admin_group_object_ids": "00000000-0000-0000-0000-000000000001",
	})

	cluster := byoclab.Cluster(v1alpha1.ClusterAKS, 3)
	cluster.Spec.NodeGroups["batch"] = cluster.Spec.NodeGroups["workers"]
	p = with(cluster, azureNetwork(), azure.ClusterOptions{SystemPool: "workers", Spot: []string{"batch"}, Autoscale: true, PlatformCIDRs: []string{"203.0.113.7/32"}})
	p.has(map[string]int{"azurerm_kubernetes_cluster_node_pool": 1})
	p.is(`azurerm_kubernetes_cluster_node_pool.this["batch"]`, map[string]string{"priority": "Spot", "auto_scaling_enabled": "true", "max_count": "10", "node_taints": "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"})
	p.is(aksCluster, map[string]string{"default_node_pool.auto_scaling_enabled": "true", "default_node_pool.max_count": "10", "api_server_access_profile.authorized_ip_ranges": "198.51.100.0/24,203.0.113.7/32"})
}

func TestBucketsInAzure(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).Azure(t, 0)
	bucket, err := azure.NewBucket(azureStack("bucket"), azure.Bucket{Name: "assets-7", ResourceGroup: "shop", OIDCIssuer: "https://oidc.example.com/", ServiceAccount: "web"})
	p := plan(t, cloud, "v1.0.0", configuration.Bucket, bucket, err, azure.Rules())
	p.has(map[string]int{"azurerm_storage_account": 1, "azurerm_storage_container": 1, "azurerm_federated_identity_credential": 1, "azurerm_role_assignment": 1})
	p.is("azurerm_storage_account.this", map[string]string{"account_replication_type": "ZRS", "min_tls_version": "TLS1_2", "shared_access_key_enabled": "", "allow_nested_items_to_be_public": "", "blob_properties.versioning_enabled": "true"})
	p.is("azurerm_federated_identity_credential.access[0]", map[string]string{"subject": "system:serviceaccount:default:web"})
	bucket, err = azure.NewBucket(azureStack("bucket"), azure.Bucket{Name: "assets-7", ResourceGroup: "shop", Replication: "LRS", NoVersioning: true})
	p = plan(t, cloud, "v1.0.0", configuration.Bucket, bucket, err, azure.Rules())
	p.has(map[string]int{"azurerm_user_assigned_identity": 0, "azurerm_role_assignment": 0})
	p.is("azurerm_storage_account.this", map[string]string{"account_replication_type": "LRS", "blob_properties.versioning_enabled": ""})
}

// What does not go together is refused in our words, and nobody is asked; the provider's come after.
func TestAzureRefusals(t *testing.T) {
	cloud, stub := byoclab.New(t, time.Second).Azure(t, 0)
	cluster := func(change func(*v1alpha1.Cluster, *azure.ClusterOptions)) (*azure.ClusterVariables, error) {
		wished, options := byoclab.Cluster(v1alpha1.ClusterAKS, 3), azure.ClusterOptions{}
		change(wished, &options)
		return azure.Cluster(azureStack("cluster"), wished, byoclab.Network(), azureNetwork(), options)
	}
	_, spot := cluster(func(_ *v1alpha1.Cluster, o *azure.ClusterOptions) { o.Spot = []string{"workers"} })
	_, two := cluster(func(c *v1alpha1.Cluster, o *azure.ClusterOptions) {
		c.Spec.NodeGroups["batch"], o.AutoProvisioning = c.Spec.NodeGroups["workers"], true
	})
	_, none := cluster(func(c *v1alpha1.Cluster, _ *azure.ClusterOptions) { c.Spec.NodeGroups = nil })
	for want, err := range map[string]error{"name another system pool": spot, "keep one group": two, "runs the cluster's own pods on nodes of a group": none} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if asked := stub.Requests(); len(asked) > 0 {
		t.Errorf("somebody asked the cloud: %v", asked)
	}
	wrong, err := cluster(func(*v1alpha1.Cluster, *azure.ClusterOptions) {})
	if err != nil {
		t.Fatal(err)
	}
	wrong.SKUTier = "Golden"
	refusedByEngine(t, cloud.Open(t, "team.cluster", "v1.0.0", configuration.Cluster, wrong), "sku_tier")
}
