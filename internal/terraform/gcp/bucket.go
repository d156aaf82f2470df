package gcp

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bucket is storage for objects, and who of a cluster may use it.
type Bucket struct {
	Name           string // unique in all of Google Cloud
	ProjectNumber  string // of the project, for access
	Namespace      string // "default" if empty
	ServiceAccount string
	NoVersioning   bool
	KMSKey         string
	DestroyObjects bool // with the bucket
}

// BucketVariables are the variables of the bucket's configuration.
type BucketVariables struct {
	Common
	Name         string `json:"name"`
	Versioning   bool   `json:"versioning"`
	KMSKey       string `json:"kms_key"`
	ForceDestroy bool   `json:"force_destroy"`
	Member       string `json:"member"`
}

var bucketName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{1,61})[a-z0-9]$`)

// NewBucket translates a bucket.
func NewBucket(stack Stack, bucket Bucket) (*BucketVariables, error) {
	common, errs := stack.common("bucket", bucket.Name)
	if !bucketName.MatchString(bucket.Name) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "name"), bucket.Name, "a bucket's name has 3 to 63 lower-case letters, digits and '-'"))
	}
	variables := &BucketVariables{Common: common, Name: bucket.Name, Versioning: !bucket.NoVersioning, KMSKey: bucket.KMSKey, ForceDestroy: bucket.DestroyObjects}
	if bucket.ServiceAccount != "" {
		if bucket.ProjectNumber == "" {
			errs = append(errs, field.Required(field.NewPath("spec", "projectNumber"), "a service account's access needs the number of the project"))
		}
		if bucket.Namespace == "" {
			bucket.Namespace = "default"
		}
		variables.Member = fmt.Sprintf("principal://iam.googleapis.com/projects/%s/locations/global/workloadIdentityPools/%s.svc.id.goog/subject/ns/%s/sa/%s",
			bucket.ProjectNumber, common.Project, bucket.Namespace, bucket.ServiceAccount)
	}
	return variables, errs.ToAggregate()
}

// BucketOutputs are what the bucket's configuration puts out.
type BucketOutputs struct {
	ID       string `json:"id"`
	Endpoint string `json:"endpoint"`
}
