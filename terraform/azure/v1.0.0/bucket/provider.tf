terraform {
  required_providers {
    azurerm = {
      source = "hashicorp/azurerm"
    }
  }
}

provider "azurerm" {
  resource_provider_registrations = "none"
  storage_use_azuread             = true # no keys of accounts

  features {
    resource_group {
      prevent_deletion_if_contains_resources = true
    }
  }
}

variable "stack" {
  description = "Name of the stack, unique in the platform."
  type        = string
}

variable "location" {
  type = string
}

variable "tags" {
  type    = map(string)
  default = {}
}

locals {
  # By these tags everything that belongs to a stack can be found, also after an apply that was killed.
  tags = merge(var.tags, {
    managed-by        = "plasmacloud"
    plasmacloud-stack = var.stack
  })
}
