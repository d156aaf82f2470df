variable "name" {
  description = "Name of the bucket, unique in all of Google Cloud."
  type        = string
}

variable "versioning" {
  type    = bool
  default = true
}

variable "kms_key" {
  description = "Key to encrypt with; the cloud's own where it is empty."
  type        = string
  default     = ""
}

variable "force_destroy" {
  type    = bool
  default = false
}

variable "member" {
  description = "Kubernetes service account that may use the bucket, as a principal of the project's workload identity pool; empty for none."
  type        = string
  default     = ""
}

resource "google_storage_bucket" "this" {
  name                        = var.name
  location                    = upper(var.region)
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.force_destroy

  versioning {
    enabled = var.versioning
  }

  dynamic "encryption" {
    for_each = var.kms_key == "" ? [] : [var.kms_key]
    content {
      default_kms_key_name = encryption.value
    }
  }
}

resource "google_storage_bucket_iam_member" "this" {
  count  = var.member == "" ? 0 : 1
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.objectUser"
  member = var.member
}

output "id" {
  value = google_storage_bucket.this.id
}

output "endpoint" {
  value = google_storage_bucket.this.url
}
