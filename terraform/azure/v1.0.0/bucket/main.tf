variable "name" {
  description = "Name of the storage account, unique in all of Azure: 3 to 24 lower-case letters and digits."
  type        = string
}

variable "container" {
  type = string
}

variable "resource_group" {
  description = "Resource group of the cluster that the bucket belongs to."
  type        = string
}

variable "replication" {
  type    = string
  default = "ZRS"
}

variable "versioning" {
  type    = bool
  default = true
}

variable "retention_days" {
  description = "How long what was deleted can be had back."
  type        = number
  default     = 7
}

variable "oidc_issuer" {
  description = "Issuer of the cluster whose pods may use the bucket; empty for none."
  type        = string
  default     = ""
}

variable "namespace" {
  type    = string
  default = "default"
}

variable "service_account" {
  type    = string
  default = ""
}

locals {
  access = var.oidc_issuer == "" || var.service_account == "" ? 0 : 1
}

resource "azurerm_storage_account" "this" {
  name                            = var.name
  resource_group_name             = var.resource_group
  location                        = var.location
  account_tier                    = "Standard"
  account_replication_type        = var.replication
  min_tls_version                 = "TLS1_2"
  https_traffic_only_enabled      = true
  allow_nested_items_to_be_public = false
  shared_access_key_enabled       = false
  tags                            = local.tags

  blob_properties {
    versioning_enabled = var.versioning
    delete_retention_policy {
      days = var.retention_days
    }
    container_delete_retention_policy {
      days = var.retention_days
    }
  }
}

resource "azurerm_storage_container" "this" {
  name                  = var.container
  storage_account_id    = azurerm_storage_account.this.id
  container_access_type = "private"
}

resource "azurerm_user_assigned_identity" "access" {
  count               = local.access
  name                = "${var.name}-access"
  resource_group_name = var.resource_group
  location            = var.location
  tags                = local.tags
}

resource "azurerm_federated_identity_credential" "access" {
  count                     = local.access
  name                      = var.name
  user_assigned_identity_id = azurerm_user_assigned_identity.access[0].id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = var.oidc_issuer
  subject                   = "system:serviceaccount:${var.namespace}:${var.service_account}"
}

resource "azurerm_role_assignment" "access" {
  count                = local.access
  name                 = uuidv5("url", "https://plasmacloud.io/stacks/${var.stack}/access") # by which it can be found again
  scope                = azurerm_storage_account.this.id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_user_assigned_identity.access[0].principal_id
  principal_type       = "ServicePrincipal"
}

output "id" {
  value = azurerm_storage_container.this.id
}

output "endpoint" {
  value = "${azurerm_storage_account.this.primary_blob_endpoint}${var.container}"
}

output "identity_client_id" {
  value = one(azurerm_user_assigned_identity.access[*].client_id)
}
