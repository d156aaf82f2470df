variable "name" {
  type = string
}

variable "kubernetes_version" {
  description = "Minor version, such as 1.35."
  type        = string
}

variable "subnet_id" {
  type = string
}

variable "pod_cidr" {
  type = string
}

variable "service_cidr" {
  type = string
}

variable "dns_service_ip" {
  type = string
}

variable "nat" {
  description = "Whether the subnet has a NAT gateway."
  type        = bool
  default     = true
}

variable "public_endpoint" {
  type    = bool
  default = false
}

variable "authorized_cidrs" {
  type    = list(string)
  default = []
}

variable "admin_group_ids" {
  description = "Groups of the directory whose members are administrators."
  type        = list(string)
  default     = []
}

variable "tenant_id" {
  type = string
}

variable "node_provisioning" {
  description = "Auto makes nodes as pods need them, Manual keeps to the pools."
  type        = string
  default     = "Manual"
}

variable "sku_tier" {
  type    = string
  default = "Standard"
}

variable "system_pool" {
  type = object({
    count    = optional(number) # scaled by the platform; between min and max by Azure, if it is null
    min      = number
    max      = number
    vm_size  = string
    disk_gib = optional(number, 64)
    zones    = optional(list(string))
    labels   = optional(map(string), {})
  })
}

variable "node_pools" {
  type = map(object({
    count     = optional(number)
    min       = number
    max       = number
    vm_size   = string
    disk_gib  = optional(number, 64)
    spot      = optional(bool, false)
    zones     = optional(list(string))
    labels    = optional(map(string), {})
    taints    = optional(list(string), [])
    max_surge = optional(string, "1")
  }))
  default = {}
}

locals {
  # Where Azure provisions nodes itself, it scales no pools.
  autoscaled = var.node_provisioning == "Manual" && var.system_pool.count == null
}

resource "azurerm_resource_group" "this" {
  name     = var.name
  location = var.location
  tags     = local.tags
}

resource "azurerm_user_assigned_identity" "this" {
  name                = var.name
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  tags                = local.tags
}

# The control plane puts load balancers and nodes into the subnet.
resource "azurerm_role_assignment" "network" {
  name                 = uuidv5("url", "https://plasmacloud.io/stacks/${var.stack}/network") # by which it can be found again
  scope                = var.subnet_id
  role_definition_name = "Network Contributor"
  principal_id         = azurerm_user_assigned_identity.this.principal_id
  principal_type       = "ServicePrincipal"
}

resource "azurerm_kubernetes_cluster" "this" {
  name                = var.name
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  dns_prefix          = var.name
  kubernetes_version  = var.kubernetes_version
  sku_tier            = var.sku_tier

  node_resource_group               = "${var.name}-nodes"
  local_account_disabled            = true
  role_based_access_control_enabled = true
  oidc_issuer_enabled               = true
  workload_identity_enabled         = true
  run_command_enabled               = false
  private_cluster_enabled           = !var.public_endpoint
  automatic_upgrade_channel         = "patch"
  node_os_upgrade_channel           = "NodeImage"

  dynamic "api_server_access_profile" {
    for_each = var.public_endpoint ? [1] : []
    content {
      authorized_ip_ranges = var.authorized_cidrs
    }
  }

  azure_active_directory_role_based_access_control {
    tenant_id              = var.tenant_id
    azure_rbac_enabled     = true
    admin_group_object_ids = var.admin_group_ids
  }

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.this.id]
  }

  network_profile {
    network_plugin      = "azure"
    network_plugin_mode = "overlay"
    network_data_plane  = "cilium"
    network_policy      = "cilium"
    pod_cidr            = var.pod_cidr
    service_cidr        = var.service_cidr
    dns_service_ip      = var.dns_service_ip
    load_balancer_sku   = "standard"
    outbound_type       = var.nat ? "userAssignedNATGateway" : "loadBalancer"
  }

  node_provisioning_profile {
    mode = var.node_provisioning
  }

  default_node_pool {
    name                        = "system"
    vm_size                     = var.system_pool.vm_size
    vnet_subnet_id              = var.subnet_id
    zones                       = var.system_pool.zones
    os_sku                      = "AzureLinux"
    os_disk_size_gb             = var.system_pool.disk_gib
    auto_scaling_enabled        = local.autoscaled
    min_count                   = local.autoscaled ? var.system_pool.min : null
    max_count                   = local.autoscaled ? var.system_pool.max : null
    node_count                  = local.autoscaled ? null : coalesce(var.system_pool.count, var.system_pool.min)
    node_labels                 = var.system_pool.labels
    orchestrator_version        = var.kubernetes_version
    temporary_name_for_rotation = "systemtmp"
    tags                        = local.tags

    upgrade_settings {
      max_surge = "1"
    }
  }

  tags = local.tags

  depends_on = [azurerm_role_assignment.network]
}

resource "azurerm_kubernetes_cluster_node_pool" "this" {
  for_each              = var.node_pools
  name                  = each.key
  kubernetes_cluster_id = azurerm_kubernetes_cluster.this.id
  mode                  = "User"
  vm_size               = each.value.vm_size
  vnet_subnet_id        = var.subnet_id
  zones                 = each.value.zones
  os_sku                = "AzureLinux"
  os_disk_size_gb       = each.value.disk_gib
  auto_scaling_enabled  = each.value.count == null
  min_count             = each.value.count == null ? each.value.min : null
  max_count             = each.value.count == null ? each.value.max : null
  node_count            = each.value.count
  node_labels           = each.value.labels
  node_taints           = each.value.taints
  priority              = each.value.spot ? "Spot" : "Regular"
  eviction_policy       = each.value.spot ? "Delete" : null
  spot_max_price        = each.value.spot ? -1 : null
  orchestrator_version  = var.kubernetes_version
  tags                  = local.tags

  dynamic "upgrade_settings" {
    for_each = each.value.spot ? [] : [1]
    content {
      max_surge = each.value.max_surge
    }
  }
}

output "name" {
  value = azurerm_kubernetes_cluster.this.name
}

output "id" {
  value = azurerm_kubernetes_cluster.this.id
}

output "resource_group" {
  value = azurerm_resource_group.this.name
}

output "endpoint" {
  value = "https://${var.public_endpoint ? azurerm_kubernetes_cluster.this.fqdn : azurerm_kubernetes_cluster.this.private_fqdn}:443"
}

output "certificate_authority" {
  description = "PEM, in base64."
  value       = azurerm_kubernetes_cluster.this.kube_config[0].cluster_ca_certificate
  sensitive   = true
}

output "version" {
  value = azurerm_kubernetes_cluster.this.current_kubernetes_version
}

output "oidc_issuer" {
  value = azurerm_kubernetes_cluster.this.oidc_issuer_url
}

output "identity_client_id" {
  value = azurerm_user_assigned_identity.this.client_id
}

output "nodes" {
  description = "How many there are to be; where Azure scales, at least."
  value       = sum(concat([coalesce(var.system_pool.count, var.system_pool.min)], [for pool in values(var.node_pools) : coalesce(pool.count, pool.min)]))
}
