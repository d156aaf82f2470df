terraform {
  required_providers {
    google = {
      source = "hashicorp/google"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region

  # By these labels everything that belongs to a stack can be found, also after an apply that was killed.
  default_labels = merge(var.labels, {
    managed-by        = "plasmacloud"
    plasmacloud-stack = var.stack_label
  })
}

variable "stack_label" {
  description = "Name of the stack as a label: lower case, digits, '-' and '_'."
  type        = string
}

variable "project" {
  type = string
}

variable "region" {
  type = string
}

variable "labels" {
  type    = map(string)
  default = {}
}
