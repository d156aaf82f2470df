variable "name" {
  type = string
}

variable "kubernetes_version" {
  description = "Minor version, such as 1.35."
  type        = string
}

variable "network" {
  type = string
}

variable "subnetwork" {
  type = string
}

variable "autopilot" {
  type    = bool
  default = false
}

variable "release_channel" {
  type    = string
  default = "REGULAR"
}

variable "public_endpoint" {
  description = "Whether the API has an address in the internet, for the ranges below."
  type        = bool
  default     = false
}

variable "authorized_cidrs" {
  type    = list(string)
  default = []
}

variable "deletion_protection" {
  type    = bool
  default = false
}

variable "database_encryption_key" {
  description = "Key to encrypt secrets with; the cloud's own where it is empty."
  type        = string
  default     = ""
}

variable "node_pools" {
  type = map(object({
    min             = number
    max             = number
    initial         = number
    machine_type    = string
    image_type      = optional(string, "COS_CONTAINERD")
    disk_gib        = optional(number, 50)
    spot            = optional(bool, false)
    zones           = optional(list(string))
    labels          = optional(map(string), {})
    max_surge       = optional(number, 1)
    max_unavailable = optional(number, 0)
    taints = optional(list(object({
      key    = string
      value  = optional(string, "")
      effect = string
    })), [])
  }))
  default = {}
}

locals {
  pools = var.autopilot ? {} : var.node_pools
}

# Nodes do not run as the project's default account, which may do anything.
resource "google_service_account" "node" {
  account_id   = "${substr(var.name, 0, 22)}-${substr(sha256(var.name), 0, 6)}"
  display_name = "Nodes of ${var.name}"
}

resource "google_project_iam_member" "node" {
  project = var.project
  role    = "roles/container.defaultNodeServiceAccount"
  member  = "serviceAccount:${google_service_account.node.email}"
}

resource "google_container_cluster" "this" {
  name     = var.name
  location = var.region

  network             = var.network
  subnetwork          = var.subnetwork
  networking_mode     = "VPC_NATIVE"
  min_master_version  = var.kubernetes_version
  enable_autopilot    = var.autopilot ? true : null
  deletion_protection = var.deletion_protection

  # Every cluster is born with a pool; ours are resources of their own.
  remove_default_node_pool = var.autopilot ? null : true
  initial_node_count       = var.autopilot ? null : 1
  datapath_provider        = var.autopilot ? null : "ADVANCED_DATAPATH"

  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }

  private_cluster_config {
    enable_private_nodes    = true
    enable_private_endpoint = !var.public_endpoint
  }

  # The DNS endpoint asks for a Google identity, wherever one comes from; it is how the platform reaches the API.
  control_plane_endpoints_config {
    dns_endpoint_config {
      allow_external_traffic = true
    }
  }

  master_authorized_networks_config {
    dynamic "cidr_blocks" {
      for_each = var.public_endpoint ? toset(var.authorized_cidrs) : toset([])
      content {
        cidr_block = cidr_blocks.value
      }
    }
  }

  release_channel {
    channel = var.release_channel
  }

  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }

  dynamic "database_encryption" {
    for_each = var.database_encryption_key == "" ? [] : [var.database_encryption_key]
    content {
      state    = "ENCRYPTED"
      key_name = database_encryption.value
    }
  }

  dynamic "cluster_autoscaling" {
    for_each = var.autopilot ? [1] : []
    content {
      auto_provisioning_defaults {
        service_account = google_service_account.node.email
        oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
      }
    }
  }

  dynamic "node_config" {
    for_each = var.autopilot ? [] : [1]
    content {
      service_account = google_service_account.node.email
      oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]
      shielded_instance_config {
        enable_secure_boot = true
      }
      workload_metadata_config {
        mode = "GKE_METADATA"
      }
    }
  }

  lifecycle {
    ignore_changes = [node_config, initial_node_count] # of the pool that is removed
  }

  depends_on = [google_project_iam_member.node]
}

resource "google_container_node_pool" "this" {
  for_each           = local.pools
  name               = each.key
  cluster            = google_container_cluster.this.id
  version            = var.kubernetes_version
  initial_node_count = each.value.initial
  node_locations     = each.value.zones

  # Without room between them, the two are the number of nodes in all zones together.
  autoscaling {
    total_min_node_count = each.value.min
    total_max_node_count = each.value.max
    location_policy      = "BALANCED"
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  upgrade_settings {
    max_surge       = each.value.max_surge
    max_unavailable = each.value.max_unavailable
  }

  node_config {
    machine_type    = each.value.machine_type
    image_type      = each.value.image_type
    disk_size_gb    = each.value.disk_gib
    disk_type       = "pd-balanced"
    spot            = each.value.spot
    labels          = each.value.labels
    service_account = google_service_account.node.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }

    dynamic "taint" {
      for_each = each.value.taints
      content {
        key    = taint.value.key
        value  = taint.value.value
        effect = taint.value.effect
      }
    }
  }

  lifecycle {
    ignore_changes = [initial_node_count, version] # the autoscaler and the release channel change them
  }
}

output "name" {
  value = google_container_cluster.this.name
}

output "endpoint" {
  value = "https://${google_container_cluster.this.endpoint}"
}

output "dns_endpoint" {
  value = try("https://${google_container_cluster.this.control_plane_endpoints_config[0].dns_endpoint_config[0].endpoint}", "")
}

output "certificate_authority" {
  description = "PEM, in base64."
  value       = google_container_cluster.this.master_auth[0].cluster_ca_certificate
}

output "version" {
  value = google_container_cluster.this.master_version
}

output "workload_pool" {
  value = "${var.project}.svc.id.goog"
}

output "node_service_account" {
  value = google_service_account.node.email
}

output "node_pools" {
  value = { for name, pool in google_container_node_pool.this : name => { min = pool.autoscaling[0].total_min_node_count, version = pool.version } }
}
