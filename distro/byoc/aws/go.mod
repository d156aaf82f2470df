// The aws provider, pinned. Its source is trimmed before it is compiled, with its own go.mod: see internal/distro/byoc.go.
module plasmacloud.io/plasmacloud/distro/byoc/aws

go 1.26.3

require github.com/hashicorp/terraform-provider-aws v1.60.1-0.20260602190131-5f2286d6d836
