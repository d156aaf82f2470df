package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bucket is storage for objects, and who of a cluster may use it.
type Bucket struct {
	Name           string // of the container
	ResourceGroup  string // of the cluster
	OIDCIssuer     string // of the cluster; nobody has access if it is empty
	Namespace      string // "default" if empty
	ServiceAccount string
	Replication    string // ZRS if empty
	NoVersioning   bool
}

// BucketVariables are the variables of the bucket's configuration.
type BucketVariables struct {
	Common
	Name           string `json:"name"`
	Container      string `json:"container"`
	ResourceGroup  string `json:"resource_group"`
	Replication    string `json:"replication"`
	Versioning     bool   `json:"versioning"`
	OIDCIssuer     string `json:"oidc_issuer"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"service_account"`
}

var containerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{1,61})[a-z0-9]$`)

// NewBucket translates a bucket: a storage account of its own, whose name is made of the stack's.
func NewBucket(stack Stack, bucket Bucket) (*BucketVariables, error) {
	common, errs := stack.common("bucket", bucket.Name)
	if !containerName.MatchString(bucket.Name) || strings.Contains(bucket.Name, "--") {
		errs = append(errs, field.Invalid(field.NewPath("spec", "name"), bucket.Name, "a bucket's name has 3 to 63 lower-case letters, digits and single '-'"))
	}
	if bucket.ResourceGroup == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "cluster"), "a bucket in Azure belongs to a cluster"))
	}
	if bucket.Namespace == "" {
		bucket.Namespace = "default"
	}
	if bucket.Replication == "" {
		bucket.Replication = "ZRS"
	}
	sum := sha256.Sum256([]byte(stack.Name))
	letters := strings.ReplaceAll(bucket.Name, "-", "")
	return &BucketVariables{
		Common: common, Name: letters[:min(len(letters), 14)] + hex.EncodeToString(sum[:5]), Container: bucket.Name, ResourceGroup: bucket.ResourceGroup,
		Replication: bucket.Replication, Versioning: !bucket.NoVersioning, OIDCIssuer: bucket.OIDCIssuer, Namespace: bucket.Namespace, ServiceAccount: bucket.ServiceAccount,
	}, errs.ToAggregate()
}

// BucketOutputs are what the bucket's configuration puts out.
type BucketOutputs struct {
	ID               string  `json:"id"`
	Endpoint         string  `json:"endpoint"`
	IdentityClientID *string `json:"identity_client_id"`
}
