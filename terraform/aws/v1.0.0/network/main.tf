locals {
  public  = { for name, s in var.subnets : name => s if s.role == "Public" }
  private = { for name, s in var.subnets : name => s if s.role == "Private" }
  intra   = { for name, s in var.subnets : name => s if s.role == "Intra" }

  # The first public subnet of each zone holds the zone's NAT gateway.
  zones       = sort(distinct([for s in values(local.public) : s.zone]))
  first       = { for zone in local.zones : zone => sort([for name, s in local.public : name if s.zone == zone])[0] }
  nat_zones   = var.nat == "None" ? [] : var.nat == "Single" ? slice(local.zones, 0, min(1, length(local.zones))) : local.zones
  nat_of_zone = { for zone in distinct([for s in values(local.private) : s.zone]) : zone => contains(local.nat_zones, zone) ? zone : try(local.nat_zones[0], "") }
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# Nothing uses the default group; without rules it cannot be used by mistake either.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-default-unused" }
}

resource "aws_internet_gateway" "this" {
  count  = length(local.public) > 0 ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_subnet" "public" {
  for_each          = local.public
  vpc_id            = aws_vpc.this.id
  cidr_block        = each.value.cidr
  availability_zone = each.value.zone
  tags = {
    Name                     = "${var.name}-${each.key}"
    "kubernetes.io/role/elb" = "1"
  }
}

resource "aws_subnet" "private" {
  for_each          = local.private
  vpc_id            = aws_vpc.this.id
  cidr_block        = each.value.cidr
  availability_zone = each.value.zone
  tags = {
    Name                              = "${var.name}-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
  }
}

resource "aws_subnet" "intra" {
  for_each          = local.intra
  vpc_id            = aws_vpc.this.id
  cidr_block        = each.value.cidr
  availability_zone = each.value.zone
  tags              = { Name = "${var.name}-${each.key}" }
}

resource "aws_eip" "nat" {
  for_each   = toset(local.nat_zones)
  domain     = "vpc"
  tags       = { Name = "${var.name}-nat-${each.key}" }
  depends_on = [aws_internet_gateway.this]
}

resource "aws_nat_gateway" "this" {
  for_each      = toset(local.nat_zones)
  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[local.first[each.key]].id
  tags          = { Name = "${var.name}-${each.key}" }
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route_table" "public" {
  count  = length(local.public) > 0 ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-public" }
}

resource "aws_route" "public" {
  count                  = length(local.public) > 0 ? 1 : 0
  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "public" {
  for_each       = local.public
  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_route_table" "private" {
  for_each = local.nat_of_zone
  vpc_id   = aws_vpc.this.id
  tags     = { Name = "${var.name}-private-${each.key}" }
}

resource "aws_route" "private" {
  for_each               = { for zone, nat in local.nat_of_zone : zone => nat if nat != "" }
  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[each.value].id
}

resource "aws_route_table_association" "private" {
  for_each       = local.private
  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.value.zone].id
}

resource "aws_route_table" "intra" {
  count  = length(local.intra) > 0 ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-intra" }
}

resource "aws_route_table_association" "intra" {
  for_each       = local.intra
  subnet_id      = aws_subnet.intra[each.key].id
  route_table_id = aws_route_table.intra[0].id
}

# Images and buckets are reached without leaving the network, and without paying NAT for them.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = concat(aws_route_table.public[*].id, values(aws_route_table.private)[*].id, aws_route_table.intra[*].id)
  tags              = { Name = "${var.name}-s3" }
}
