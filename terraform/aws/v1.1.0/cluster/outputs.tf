output "name" {
  value = aws_eks_cluster.this.name
}

output "arn" {
  value = aws_eks_cluster.this.arn
}

output "endpoint" {
  value = aws_eks_cluster.this.endpoint
}

output "certificate_authority" {
  description = "PEM, in base64."
  value       = aws_eks_cluster.this.certificate_authority[0].data
}

output "version" {
  value = aws_eks_cluster.this.version
}

output "oidc_issuer" {
  value = aws_eks_cluster.this.identity[0].oidc[0].issuer
}

output "oidc_provider_arn" {
  value = aws_iam_openid_connect_provider.this.arn
}

output "node_role_arn" {
  value = aws_iam_role.node.arn
}

output "cluster_security_group" {
  value = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}

output "node_groups" {
  value = { for name, group in aws_eks_node_group.this : name => { desired = group.scaling_config[0].desired_size, status = group.status } }
}

output "karpenter" {
  value = var.karpenter ? { queue = aws_sqs_queue.karpenter[0].name, role_arn = aws_iam_role.karpenter[0].arn } : null
}
