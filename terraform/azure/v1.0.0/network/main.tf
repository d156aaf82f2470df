variable "name" {
  type = string
}

variable "cidr" {
  type = string
}

variable "subnets" {
  description = "Subnets by name. Private ones reach the internet through NAT, intra ones not at all."
  type = map(object({
    cidr = string
    role = string
  }))
}

variable "nat" {
  type    = bool
  default = true
}

variable "nat_zone" {
  description = "Zone of the NAT gateway; empty for none in particular."
  type        = string
  default     = ""
}

locals {
  natted = { for name, s in var.subnets : name => s if var.nat && s.role != "Intra" }
  zones  = var.nat_zone == "" ? null : [var.nat_zone]
}

resource "azurerm_resource_group" "this" {
  name     = var.name
  location = var.location
  tags     = local.tags
}

resource "azurerm_virtual_network" "this" {
  name                = var.name
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  address_space       = [var.cidr]
  tags                = local.tags
}

resource "azurerm_subnet" "this" {
  for_each                        = var.subnets
  name                            = each.key
  resource_group_name             = azurerm_resource_group.this.name
  virtual_network_name            = azurerm_virtual_network.this.name
  address_prefixes                = [each.value.cidr]
  default_outbound_access_enabled = false # what goes out goes through NAT
}

resource "azurerm_network_security_group" "this" {
  name                = var.name
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  tags                = local.tags
}

resource "azurerm_subnet_network_security_group_association" "this" {
  for_each                  = var.subnets
  subnet_id                 = azurerm_subnet.this[each.key].id
  network_security_group_id = azurerm_network_security_group.this.id
}

resource "azurerm_public_ip" "nat" {
  count               = length(local.natted) > 0 ? 1 : 0
  name                = "${var.name}-nat"
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  allocation_method   = "Static"
  sku                 = "Standard"
  zones               = local.zones
  tags                = local.tags
}

resource "azurerm_nat_gateway" "this" {
  count               = length(local.natted) > 0 ? 1 : 0
  name                = var.name
  resource_group_name = azurerm_resource_group.this.name
  location            = azurerm_resource_group.this.location
  sku_name            = "Standard"
  zones               = local.zones
  tags                = local.tags
}

resource "azurerm_nat_gateway_public_ip_association" "this" {
  count                = length(local.natted) > 0 ? 1 : 0
  nat_gateway_id       = azurerm_nat_gateway.this[0].id
  public_ip_address_id = azurerm_public_ip.nat[0].id
}

resource "azurerm_subnet_nat_gateway_association" "this" {
  for_each       = local.natted
  subnet_id      = azurerm_subnet.this[each.key].id
  nat_gateway_id = azurerm_nat_gateway.this[0].id
}

output "id" {
  value = azurerm_virtual_network.this.id
}

output "resource_group" {
  value = azurerm_resource_group.this.name
}

output "subnets" {
  value = { for name, subnet in azurerm_subnet.this : name => { id = subnet.id, role = var.subnets[name].role } }
}

output "nat_addresses" {
  value = azurerm_public_ip.nat[*].ip_address
}
