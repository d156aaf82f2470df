// The azurerm provider, pinned. Its source is trimmed before it is compiled, with its own go.mod: see internal/distro/byoc.go.
module plasmacloud.io/plasmacloud/distro/byoc/azurerm

go 1.26.6

require github.com/hashicorp/terraform-provider-azurerm v1.44.1-0.20260824201233-fae580791926
