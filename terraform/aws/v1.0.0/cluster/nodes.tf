resource "aws_launch_template" "node" {
  for_each               = local.managed
  name                   = "${var.name}-${each.key}"
  update_default_version = true
  tags                   = { Name = "${var.name}-${each.key}" }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1 # pods do not reach the node's identity
  }

  block_device_mappings {
    # Bottlerocket keeps containers on its second disk.
    device_name = startswith(each.value.ami_type, "BOTTLEROCKET") ? "/dev/xvdb" : "/dev/xvda"
    ebs {
      volume_type           = "gp3"
      volume_size           = each.value.disk_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.name}-${each.key}", "plasmacloud.io/stack" = var.stack }
  }
}

resource "aws_eks_node_group" "this" {
  for_each        = local.managed
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = each.key
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = each.value.subnet_ids == null ? var.node_subnet_ids : each.value.subnet_ids
  version         = var.kubernetes_version
  ami_type        = each.value.ami_type
  capacity_type   = each.value.capacity_type
  instance_types  = each.value.instance_types
  labels          = each.value.labels

  scaling_config {
    min_size     = each.value.min
    max_size     = each.value.max
    desired_size = each.value.desired
  }

  update_config {
    max_unavailable = each.value.max_unavailable
  }

  launch_template {
    id      = aws_launch_template.node[each.key].id
    version = aws_launch_template.node[each.key].latest_version
  }

  dynamic "taint" {
    for_each = each.value.taints
    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }

  depends_on = [aws_iam_role_policy_attachment.node, aws_eks_addon.before]
}
