# Nodes become ready with these.
resource "aws_eks_addon" "before" {
  for_each                    = var.auto_mode ? toset([]) : toset(["vpc-cni", "kube-proxy", "eks-pod-identity-agent"])
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "PRESERVE"

  dynamic "pod_identity_association" {
    for_each = each.key == "vpc-cni" ? ["aws-node"] : []
    content {
      service_account = pod_identity_association.value
      role_arn        = aws_iam_role.addon["vpc-cni"].arn
    }
  }

  depends_on = [aws_iam_role_policy_attachment.addon]
}

# These need nodes to run on.
resource "aws_eks_addon" "after" {
  for_each                    = var.auto_mode ? toset([]) : toset(["coredns", "aws-ebs-csi-driver"])
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "PRESERVE"

  dynamic "pod_identity_association" {
    for_each = each.key == "aws-ebs-csi-driver" ? ["ebs-csi-controller-sa"] : []
    content {
      service_account = pod_identity_association.value
      role_arn        = aws_iam_role.addon["aws-ebs-csi-driver"].arn
    }
  }

  depends_on = [aws_eks_node_group.this]
}
