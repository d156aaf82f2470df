variable "name" {
  type = string
}

variable "cidr" {
  type = string
}

variable "subnets" {
  description = "Subnets by name. Public ones reach the internet themselves, private ones through NAT, intra ones not at all."
  type = map(object({
    cidr = string
    zone = string
    role = string
  }))

  validation {
    condition     = alltrue([for s in values(var.subnets) : contains(["Public", "Private", "Intra"], s.role)])
    error_message = "A subnet's role is Public, Private or Intra."
  }
}

variable "nat" {
  description = "None, Single, or PerZone."
  type        = string
  default     = "Single"

  validation {
    condition     = contains(["None", "Single", "PerZone"], var.nat)
    error_message = "NAT is None, Single or PerZone."
  }
}

variable "flow_logs" {
  type    = bool
  default = true
}

variable "log_retention_days" {
  type    = number
  default = 30
}
