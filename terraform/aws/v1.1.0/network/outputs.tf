output "id" {
  value = aws_vpc.this.id
}

output "public_subnets" {
  value = { for name, subnet in aws_subnet.public : name => { id = subnet.id, zone = subnet.availability_zone } }
}

output "private_subnets" {
  value = { for name, subnet in aws_subnet.private : name => { id = subnet.id, zone = subnet.availability_zone } }
}

output "intra_subnets" {
  value = { for name, subnet in aws_subnet.intra : name => { id = subnet.id, zone = subnet.availability_zone } }
}

output "nat_addresses" {
  description = "What the world sees of the nodes; clusters let these reach their API."
  value       = sort([for address in aws_eip.nat : address.public_ip])
}
