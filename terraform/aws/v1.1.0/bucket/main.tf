variable "name" {
  description = "Name of the bucket, unique in all of AWS."
  type        = string
}

variable "cluster" {
  description = "Cluster whose pods may use the bucket; empty for none."
  type        = string
  default     = ""
}

variable "namespace" {
  type    = string
  default = "default"
}

variable "service_account" {
  type    = string
  default = ""
}

variable "versioning" {
  type    = bool
  default = true
}

variable "kms_key_arn" {
  description = "Key to encrypt with; the cloud's own where it is empty."
  type        = string
  default     = ""
}

variable "force_destroy" {
  description = "Whether objects are destroyed with the bucket."
  type        = bool
  default     = false
}

locals {
  access = var.cluster == "" || var.service_account == "" ? 0 : 1
}

resource "aws_s3_bucket" "this" {
  bucket        = var.name
  force_destroy = var.force_destroy
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id
  versioning_configuration {
    status = var.versioning ? "Enabled" : "Suspended"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    bucket_key_enabled = var.kms_key_arn != ""
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == "" ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn == "" ? null : var.kms_key_arn
    }
  }
}

resource "aws_iam_role" "access" {
  count = local.access
  name  = "${var.cluster}-bucket-${substr(sha256(var.name), 0, 12)}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "access" {
  count = local.access
  name  = "bucket"
  role  = aws_iam_role.access[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["s3:ListBucket", "s3:GetBucketLocation"], Resource = aws_s3_bucket.this.arn },
      { Effect = "Allow", Action = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"], Resource = "${aws_s3_bucket.this.arn}/*" },
    ]
  })
}

resource "aws_eks_pod_identity_association" "access" {
  count           = local.access
  cluster_name    = var.cluster
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.access[0].arn
}

output "id" {
  value = aws_s3_bucket.this.id
}

output "arn" {
  value = aws_s3_bucket.this.arn
}

output "endpoint" {
  value = "https://${aws_s3_bucket.this.bucket_regional_domain_name}"
}

output "role_arn" {
  value = one(aws_iam_role.access[*].arn)
}
