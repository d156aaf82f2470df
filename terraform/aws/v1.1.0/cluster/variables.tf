variable "name" {
  type = string
}

variable "kubernetes_version" {
  description = "Minor version, such as 1.35."
  type        = string
}

variable "vpc_id" {
  type = string
}

variable "node_subnet_ids" {
  description = "Subnets of nodes and pods."
  type        = list(string)
}

variable "control_plane_subnet_ids" {
  description = "Subnets that the control plane reaches the nodes from, in two zones at least."
  type        = list(string)
}

variable "auto_mode" {
  description = "AWS makes nodes as pods need them."
  type        = bool
  default     = true
}

variable "karpenter" {
  description = "What Karpenter needs; it is installed afterwards."
  type        = bool
  default     = false
}

variable "endpoint_public_access" {
  type    = bool
  default = false
}

variable "public_access_cidrs" {
  type    = list(string)
  default = []
}

variable "service_cidr" {
  type = string
}

variable "log_types" {
  type    = list(string)
  default = ["api", "audit", "authenticator", "controllerManager", "scheduler"]
}

variable "log_retention_days" {
  type    = number
  default = 90
}

variable "deletion_protection" {
  type    = bool
  default = false
}

variable "support_type" {
  description = "STANDARD upgrades by itself when a version's support ends, EXTENDED costs more."
  type        = string
  default     = "STANDARD"
}

variable "admins" {
  description = "Principals, by ARN, that are administrators of the cluster besides the one that makes it."
  type        = list(string)
  default     = []
}

variable "node_groups" {
  description = "Managed node groups by name."
  type = map(object({
    min             = number
    max             = number
    desired         = number
    instance_types  = list(string)
    capacity_type   = optional(string, "ON_DEMAND")
    ami_type        = optional(string, "BOTTLEROCKET_x86_64")
    disk_gib        = optional(number, 20)
    subnet_ids      = optional(list(string))
    labels          = optional(map(string), {})
    max_unavailable = optional(number, 1)
    taints = optional(list(object({
      key    = string
      value  = optional(string, "")
      effect = string
    })), [])
  }))
  default = {}
}
