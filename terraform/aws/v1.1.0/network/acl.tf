# The subnets of control planes talk to the network, and to nobody else, whatever a security group says.
resource "aws_network_acl" "intra" {
  count      = length(local.intra) > 0 ? 1 : 0
  vpc_id     = aws_vpc.this.id
  subnet_ids = values(aws_subnet.intra)[*].id
  tags       = { Name = "${var.name}-intra" }
}

resource "aws_network_acl_rule" "intra" {
  for_each       = length(local.intra) > 0 ? { in = false, out = true } : {}
  network_acl_id = aws_network_acl.intra[0].id
  rule_number    = 100
  egress         = each.value
  protocol       = "-1"
  rule_action    = "allow"
  cidr_block     = var.cidr
}
