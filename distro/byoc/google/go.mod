// The google provider, pinned. Its source is trimmed before it is compiled, with its own go.mod: see internal/distro/byoc.go.
module plasmacloud.io/plasmacloud/distro/byoc/google

go 1.26.0

require github.com/hashicorp/terraform-provider-google v1.20.1-0.20260828184646-f3721fb45fa3
