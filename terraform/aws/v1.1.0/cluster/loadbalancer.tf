# What the AWS Load Balancer Controller needs, which is installed afterwards: a role, through Pod Identity. In Auto Mode AWS
# runs the controller itself.
locals {
  load_balancer  = var.auto_mode ? 0 : 1
  elb            = "${local.arn}:elasticloadbalancing:${var.region}:*"
  load_balancers = [for kind in ["targetgroup", "loadbalancer/net", "loadbalancer/app"] : "${local.elb}:${kind}/*/*"]
  listeners      = [for kind in ["listener/net", "listener/app", "listener-rule/net", "listener-rule/app"] : "${local.elb}:${kind}/*/*/*"]
  tagged         = { Null = { "aws:ResourceTag/elbv2.k8s.aws/cluster" = "false" } }
}

resource "aws_iam_role" "load_balancer" {
  count = local.load_balancer
  name  = "${var.name}-load-balancer"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "load_balancer" {
  count = local.load_balancer
  name  = "controller"
  role  = aws_iam_role.load_balancer[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["ec2:Describe*", "ec2:Get*", "elasticloadbalancing:Describe*", "acm:ListCertificates", "acm:DescribeCertificate"], Resource = "*" },
      {
        Effect    = "Allow", Action = "iam:CreateServiceLinkedRole", Resource = "*"
        Condition = { StringEquals = { "iam:AWSServiceName" = "elasticloadbalancing.amazonaws.com" } }
      },
      { Effect = "Allow", Action = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress", "ec2:CreateSecurityGroup"], Resource = "*" },
      {
        Effect    = "Allow", Action = "ec2:CreateTags", Resource = "${local.arn}:ec2:*:*:security-group/*"
        Condition = { StringEquals = { "ec2:CreateAction" = "CreateSecurityGroup" }, Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "false" } }
      },
      {
        Effect    = "Allow", Action = ["ec2:CreateTags", "ec2:DeleteTags"], Resource = "${local.arn}:ec2:*:*:security-group/*"
        Condition = { Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "true", "aws:ResourceTag/elbv2.k8s.aws/cluster" = "false" } }
      },
      { Effect = "Allow", Action = "ec2:DeleteSecurityGroup", Resource = "*", Condition = local.tagged },
      {
        Effect    = "Allow", Action = ["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"], Resource = "*"
        Condition = { Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "false" } }
      },
      {
        Effect = "Allow", Resource = "*"
        Action = [for verb in ["CreateListener", "DeleteListener", "CreateRule", "DeleteRule", "SetWebAcl", "ModifyListener", "AddListenerCertificates", "RemoveListenerCertificates", "ModifyRule", "SetRulePriorities"] : "elasticloadbalancing:${verb}"]
      },
      {
        Effect    = "Allow", Action = ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"], Resource = local.load_balancers
        Condition = { Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "true", "aws:ResourceTag/elbv2.k8s.aws/cluster" = "false" } }
      },
      { Effect = "Allow", Action = ["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"], Resource = local.listeners },
      {
        Effect    = "Allow", Action = "elasticloadbalancing:AddTags", Resource = local.load_balancers
        Condition = { StringEquals = { "elasticloadbalancing:CreateAction" = ["CreateTargetGroup", "CreateLoadBalancer"] }, Null = { "aws:RequestTag/elbv2.k8s.aws/cluster" = "false" } }
      },
      {
        Effect = "Allow", Resource = "*", Condition = local.tagged
        Action = [for verb in ["ModifyLoadBalancerAttributes", "SetIpAddressType", "SetSecurityGroups", "SetSubnets", "DeleteLoadBalancer", "ModifyTargetGroup", "ModifyTargetGroupAttributes", "DeleteTargetGroup", "ModifyListenerAttributes", "ModifyCapacityReservation", "ModifyIpPools"] : "elasticloadbalancing:${verb}"]
      },
      { Effect = "Allow", Action = ["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"], Resource = "${local.elb}:targetgroup/*/*" },
    ]
  })
}

resource "aws_eks_pod_identity_association" "load_balancer" {
  count           = local.load_balancer
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "kube-system"
  service_account = "aws-load-balancer-controller"
  role_arn        = aws_iam_role.load_balancer[0].arn
  tags            = { Name = "${var.name}-load-balancer" } # by which it is told from others
}

output "load_balancer_role_arn" {
  value = var.auto_mode ? "" : aws_iam_role.load_balancer[0].arn
}
