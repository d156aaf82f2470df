locals {
  # Groups of one's own and Auto Mode exclude each other; the translation says so before the cloud does.
  managed = var.auto_mode ? {} : var.node_groups
}

data "aws_partition" "this" {}

resource "aws_kms_key" "cluster" {
  description             = "Secrets of the cluster ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
}

resource "aws_cloudwatch_log_group" "cluster" {
  name              = "/aws/eks/${var.name}/cluster"
  retention_in_days = var.log_retention_days
}

resource "aws_eks_cluster" "this" {
  name     = var.name
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn

  bootstrap_self_managed_addons = false
  enabled_cluster_log_types     = var.log_types
  deletion_protection           = var.deletion_protection

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true # the platform itself, which installs the add-ons
  }

  upgrade_policy {
    support_type = var.support_type
  }

  vpc_config {
    subnet_ids              = var.control_plane_subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = var.endpoint_public_access
    public_access_cidrs     = var.endpoint_public_access ? var.public_access_cidrs : null
  }

  encryption_config {
    resources = ["secrets"]
    provider {
      key_arn = aws_kms_key.cluster.arn
    }
  }

  # Auto Mode is these three together; the provider refuses one without the others.
  compute_config {
    enabled       = var.auto_mode
    node_pools    = var.auto_mode ? ["general-purpose", "system"] : null
    node_role_arn = var.auto_mode ? aws_iam_role.node.arn : null
  }

  kubernetes_network_config {
    service_ipv4_cidr = var.service_cidr
    elastic_load_balancing {
      enabled = var.auto_mode
    }
  }

  storage_config {
    block_storage {
      enabled = var.auto_mode
    }
  }

  # AWS does not tell how a cluster was begun. One that is adopted would be replaced for it.
  lifecycle {
    ignore_changes = [bootstrap_self_managed_addons, access_config[0].bootstrap_cluster_creator_admin_permissions]
  }

  depends_on = [aws_iam_role_policy_attachment.cluster, aws_iam_role_policy_attachment.node, aws_cloudwatch_log_group.cluster]
}

resource "aws_iam_openid_connect_provider" "this" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]
}

resource "aws_eks_access_entry" "admin" {
  for_each      = toset(var.admins)
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = each.key
}

resource "aws_eks_access_policy_association" "admin" {
  for_each      = toset(var.admins)
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.admin[each.key].principal_arn
  policy_arn    = "arn:${data.aws_partition.this.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
  access_scope {
    type = "cluster"
  }
}
