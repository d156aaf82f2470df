locals {
  policy = "arn:${data.aws_partition.this.partition}:iam::aws:policy"

  # Add-ons get what they need through Pod Identity: nodes, and with them all pods, do not have it.
  addons = var.auto_mode ? {} : {
    vpc-cni            = "AmazonEKS_CNI_Policy"
    aws-ebs-csi-driver = "service-role/AmazonEBSCSIDriverPolicy"
  }
}

resource "aws_iam_role" "cluster" {
  name = "${var.name}-cluster"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  for_each = toset(concat(["AmazonEKSClusterPolicy"], var.auto_mode ? [
    "AmazonEKSComputePolicy", "AmazonEKSBlockStoragePolicy", "AmazonEKSLoadBalancingPolicy", "AmazonEKSNetworkingPolicy",
  ] : []))
  role       = aws_iam_role.cluster.name
  policy_arn = "${local.policy}/${each.key}"
}

resource "aws_iam_role" "node" {
  name = "${var.name}-node"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(concat(["AmazonEC2ContainerRegistryPullOnly"], var.auto_mode ? ["AmazonEKSWorkerNodeMinimalPolicy"] : [
    "AmazonEKSWorkerNodePolicy", "AmazonSSMManagedInstanceCore",
  ]))
  role       = aws_iam_role.node.name
  policy_arn = "${local.policy}/${each.key}"
}

resource "aws_iam_role" "addon" {
  for_each = local.addons
  name     = "${var.name}-${each.key}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "addon" {
  for_each   = local.addons # and not the roles: importing would not know them beforehand
  role       = aws_iam_role.addon[each.key].name
  policy_arn = "${local.policy}/${each.value}"
}
