terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = var.account_id == "" ? null : [var.account_id]

  dynamic "assume_role" {
    for_each = var.role_arn == "" ? [] : [var.role_arn]
    content {
      role_arn     = assume_role.value
      external_id  = var.external_id == "" ? null : var.external_id
      session_name = "plasmacloud"
    }
  }

  # By these tags everything that belongs to a stack can be found, also after an apply that was killed.
  default_tags {
    tags = merge(var.tags, {
      "plasmacloud.io/managed-by" = "plasmacloud"
      "plasmacloud.io/stack"      = var.stack
    })
  }
}

variable "stack" {
  description = "Name of the stack, unique in the platform."
  type        = string
}

variable "region" {
  type = string
}

variable "account_id" {
  description = "Account that is worked in; any other is refused. Empty is no check."
  type        = string
  default     = ""
}

variable "role_arn" {
  description = "Role to assume, if any."
  type        = string
  default     = ""
}

variable "external_id" {
  description = "What the role asks for."
  type        = string
  default     = ""
  sensitive   = true
}

variable "tags" {
  type    = map(string)
  default = {}
}
