package aws

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bucket is storage for objects, and who of a cluster may use it.
type Bucket struct {
	Name           string // unique in all of AWS
	Cluster        string // the cluster's name in AWS; nobody has access if it is empty
	Namespace      string // "default" if empty
	ServiceAccount string
	NoVersioning   bool
	KMSKeyARN      string
	DestroyObjects bool // with the bucket
}

// BucketVariables are the variables of the bucket's configuration.
type BucketVariables struct {
	Common
	Name           string `json:"name"`
	Cluster        string `json:"cluster"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"service_account"`
	Versioning     bool   `json:"versioning"`
	KMSKeyARN      string `json:"kms_key_arn"`
	ForceDestroy   bool   `json:"force_destroy"`
}

var bucketName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{1,61})[a-z0-9]$`)

// NewBucket translates a bucket.
func NewBucket(stack Stack, bucket Bucket) (*BucketVariables, error) {
	common, errs := stack.common(map[string]string{"plasmacloud.io/bucket": bucket.Name})
	if !bucketName.MatchString(bucket.Name) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "name"), bucket.Name, "a bucket's name has 3 to 63 lower-case letters, digits and '-'"))
	}
	if bucket.ServiceAccount != "" && bucket.Cluster == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "cluster"), "a service account is one of a cluster"))
	}
	if bucket.Namespace == "" {
		bucket.Namespace = "default"
	}
	return &BucketVariables{
		Common: common, Name: bucket.Name, Cluster: bucket.Cluster, Namespace: bucket.Namespace, ServiceAccount: bucket.ServiceAccount,
		Versioning: !bucket.NoVersioning, KMSKeyARN: bucket.KMSKeyARN, ForceDestroy: bucket.DestroyObjects,
	}, errs.ToAggregate()
}

// BucketOutputs are what the bucket's configuration puts out.
type BucketOutputs struct {
	ID       string  `json:"id"`
	ARN      string  `json:"arn"`
	Endpoint string  `json:"endpoint"`
	RoleARN  *string `json:"role_arn"`
}
