# What Karpenter v1 needs: a role for its controller, a queue that tells it of interruptions, and nodes that may join.
locals {
  karpenter = var.karpenter ? 1 : 0
  arn       = "arn:${data.aws_partition.this.partition}"
  owned     = { "aws:ResourceTag/kubernetes.io/cluster/${var.name}" = "owned" }
  events = var.karpenter ? {
    health    = { source = "aws.health", type = "AWS Health Event" }
    spot      = { source = "aws.ec2", type = "EC2 Spot Instance Interruption Warning" }
    rebalance = { source = "aws.ec2", type = "EC2 Instance Rebalance Recommendation" }
    state     = { source = "aws.ec2", type = "EC2 Instance State-change Notification" }
  } : {}
}

resource "aws_sqs_queue" "karpenter" {
  count                     = local.karpenter
  name                      = "${var.name}-karpenter"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "karpenter" {
  count     = local.karpenter
  queue_url = aws_sqs_queue.karpenter[0].url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = ["events.amazonaws.com", "sqs.amazonaws.com"] }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.karpenter[0].arn
    }]
  })
}

resource "aws_cloudwatch_event_rule" "karpenter" {
  for_each      = local.events
  name          = "${var.name}-karpenter-${each.key}"
  event_pattern = jsonencode({ source = [each.value.source], detail-type = [each.value.type] })
}

resource "aws_cloudwatch_event_target" "karpenter" {
  for_each  = local.events
  rule      = aws_cloudwatch_event_rule.karpenter[each.key].name
  target_id = "karpenter"
  arn       = aws_sqs_queue.karpenter[0].arn
}

resource "aws_iam_role" "karpenter" {
  count = local.karpenter
  name  = "${var.name}-karpenter"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "karpenter" {
  count = local.karpenter
  name  = "controller"
  role  = aws_iam_role.karpenter[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["ec2:Describe*", "pricing:GetProducts", "ssm:GetParameter"], Resource = "*" },
      { Effect = "Allow", Action = "eks:DescribeCluster", Resource = aws_eks_cluster.this.arn },
      {
        Effect   = "Allow", Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [for kind in ["image", "snapshot"] : "${local.arn}:ec2:${var.region}::${kind}/*"]
      },
      {
        Effect   = "Allow", Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [for kind in ["security-group", "subnet", "capacity-reservation"] : "${local.arn}:ec2:${var.region}:*:${kind}/*"]
      },
      {
        Effect    = "Allow", Action = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags"]
        Resource  = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] : "${local.arn}:ec2:${var.region}:*:${kind}/*"]
        Condition = { StringEquals = { "aws:RequestTag/kubernetes.io/cluster/${var.name}" = "owned" } }
      },
      {
        Effect    = "Allow", Action = ["ec2:RunInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate", "ec2:CreateTags"]
        Resource  = [for kind in ["instance", "launch-template"] : "${local.arn}:ec2:${var.region}:*:${kind}/*"]
        Condition = { StringEquals = local.owned }
      },
      { Effect = "Allow", Action = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], Resource = aws_sqs_queue.karpenter[0].arn },
      { Effect = "Allow", Action = "iam:PassRole", Resource = aws_iam_role.node.arn, Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } } },
      {
        Effect   = "Allow", Action = ["iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile"]
        Resource = "${local.arn}:iam::*:instance-profile/*"
      },
    ]
  })
}

resource "aws_eks_pod_identity_association" "karpenter" {
  count           = local.karpenter
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "kube-system"
  service_account = "karpenter"
  role_arn        = aws_iam_role.karpenter[0].arn
  tags            = { Name = "${var.name}-karpenter" } # by which it is told from others
}

# The nodes of managed groups have this role too, and AWS makes an entry for it with the first group.
resource "aws_eks_access_entry" "karpenter" {
  count         = length(local.managed) == 0 ? local.karpenter : 0
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}
