variable "name" {
  type = string
}

variable "subnets" {
  description = "Subnets by name, each with the ranges of pods and services of the clusters in it."
  type = map(object({
    cidr         = string
    pod_cidr     = string
    service_cidr = string
  }))
}

variable "nat" {
  type    = bool
  default = true
}

variable "flow_logs" {
  type    = bool
  default = true
}

resource "google_compute_network" "this" {
  name                            = var.name
  auto_create_subnetworks         = false
  routing_mode                    = "REGIONAL"
  delete_default_routes_on_create = false
}

resource "google_compute_subnetwork" "this" {
  for_each                 = var.subnets
  name                     = "${var.name}-${each.key}"
  network                  = google_compute_network.this.id
  region                   = var.region
  ip_cidr_range            = each.value.cidr
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = "pods"
    ip_cidr_range = each.value.pod_cidr
  }

  secondary_ip_range {
    range_name    = "services"
    ip_cidr_range = each.value.service_cidr
  }

  dynamic "log_config" {
    for_each = var.flow_logs ? [1] : []
    content {
      aggregation_interval = "INTERVAL_1_MIN"
      flow_sampling        = 0.5
      metadata             = "INCLUDE_ALL_METADATA"
    }
  }
}

resource "google_compute_router" "this" {
  count   = var.nat ? 1 : 0
  name    = var.name
  network = google_compute_network.this.id
  region  = var.region
}

resource "google_compute_router_nat" "this" {
  count                              = var.nat ? 1 : 0
  name                               = var.name
  router                             = google_compute_router.this[0].name
  region                             = var.region
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
  log_config {
    enable = true
    filter = "ERRORS_ONLY"
  }
}

output "id" {
  value = google_compute_network.this.id
}

output "subnets" {
  value = { for name, subnet in google_compute_subnetwork.this : name => { id = subnet.id, cidr = subnet.ip_cidr_range } }
}
