package v1alpha1

// StateType is where the states of what is made in an account are.
// +kubebuilder:validation:Enum=Platform;S3;GCS;AzureRM;Postgres
type StateType string

// The places for states.
const (
	StatePlatform StateType = "Platform"
	StateS3       StateType = "S3"
	StateGCS      StateType = "GCS"
	StateAzureRM  StateType = "AzureRM"
	StatePostgres StateType = "Postgres"
)

// KeyPostgresConnection is the key in the Secret with an account's credentials that holds the connection string, for states
// in PostgreSQL.
const KeyPostgresConnection = "PG_CONN_STR"

// StatePrefix is what the names of states begin with.
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[-_.A-Za-z0-9]+(/[-_.A-Za-z0-9]+)*$')",message="this is no beginning of names; it has letters, digits, '-', '_', '.' and '/' between them, such as plasmacloud/prod"
type StatePrefix string

// S3State is a bucket of S3 that states are in. They are encrypted there, and locked by a file beside them.
type S3State struct {
	// Bucket that is there already; let it keep versions.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$')",message="this is no name of a bucket; it has 3 to 63 lower-case letters, digits, '-' and '.'"
	Bucket string `json:"bucket"`
	// Region of the bucket; the account's where it is not given.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// Prefix of the names of states in the bucket.
	// +optional
	Prefix StatePrefix `json:"prefix,omitempty"`
	// KMSKeyID is the key that states are encrypted with, by its ARN; one of S3's own where it is not given.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	KMSKeyID string `json:"kmsKeyID,omitempty"`
	// Endpoint of S3, where it is not AWS's own address.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https://[^ ?#]+$')",message="this is no address of S3; it looks like https://s3.example.com"
	Endpoint string `json:"endpoint,omitempty"`
}

// GCSState is a bucket of Cloud Storage that states are in.
type GCSState struct {
	// Bucket that is there already; let it keep versions.
	// +kubebuilder:validation:MaxLength=222
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]$')",message="this is no name of a bucket; it has 3 to 222 lower-case letters, digits, '-', '_' and '.'"
	Bucket string `json:"bucket"`
	// Prefix of the names of states in the bucket.
	// +optional
	Prefix StatePrefix `json:"prefix,omitempty"`
}

// AzureRMState is a container of an Azure storage account that states are in.
type AzureRMState struct {
	// ResourceGroup of the storage account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=90
	ResourceGroup string `json:"resourceGroup"`
	// StorageAccount that is there already.
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]{3,24}$')",message="this is no name of a storage account; it has 3 to 24 lower-case letters and digits"
	StorageAccount string `json:"storageAccount"`
	// Container that is there already.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-a-z0-9]{1,61}[a-z0-9]$')",message="this is no name of a container; it has 3 to 63 lower-case letters, digits and '-'"
	Container string `json:"container"`
	// Prefix of the names of states in the container.
	// +optional
	Prefix StatePrefix `json:"prefix,omitempty"`
}

// PostgresState is a database of PostgreSQL that states are in. How to reach it is secret: it is in the Secret with the
// account's credentials.
type PostgresState struct {
	// Schema that states are in, each in a table of its own.
	// +kubebuilder:default=plasmacloud
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$')",message="this is no name of a schema; it has lower-case letters, digits and '_', and begins with no digit"
	Schema string `json:"schema,omitempty"`
}

// AccountState is where the states of what is made in an account are.
// +kubebuilder:validation:XValidation:rule="self.type != 'S3' || has(self.s3)",reason=FieldValueRequired,fieldPath=".s3",message="states in S3 need a bucket"
// +kubebuilder:validation:XValidation:rule="self.type != 'GCS' || has(self.gcs)",reason=FieldValueRequired,fieldPath=".gcs",message="states in Cloud Storage need a bucket"
// +kubebuilder:validation:XValidation:rule="self.type != 'AzureRM' || has(self.azurerm)",reason=FieldValueRequired,fieldPath=".azurerm",message="states in Azure need a resourceGroup, a storageAccount and a container"
// +kubebuilder:validation:XValidation:rule="!has(self.s3) || self.type == 'S3'",reason=FieldValueForbidden,fieldPath=".s3",message="it is only for states in S3; remove it, or set type"
// +kubebuilder:validation:XValidation:rule="!has(self.gcs) || self.type == 'GCS'",reason=FieldValueForbidden,fieldPath=".gcs",message="it is only for states in Cloud Storage; remove it, or set type"
// +kubebuilder:validation:XValidation:rule="!has(self.azurerm) || self.type == 'AzureRM'",reason=FieldValueForbidden,fieldPath=".azurerm",message="it is only for states in Azure; remove it, or set type"
// +kubebuilder:validation:XValidation:rule="!has(self.postgres) || self.type == 'Postgres'",reason=FieldValueForbidden,fieldPath=".postgres",message="it is only for states in PostgreSQL; remove it, or set type"
type AccountState struct {
	// Type of the place: the platform itself, or one that its owner has.
	// +kubebuilder:default=Platform
	Type StateType `json:"type,omitempty"`
	// S3 is the bucket, for type S3.
	// +optional
	S3 *S3State `json:"s3,omitempty"`
	// GCS is the bucket, for type GCS.
	// +optional
	GCS *GCSState `json:"gcs,omitempty"`
	// AzureRM is the container, for type AzureRM.
	// +optional
	AzureRM *AzureRMState `json:"azurerm,omitempty"`
	// Postgres is the schema, for type Postgres.
	// +optional
	Postgres *PostgresState `json:"postgres,omitempty"`
}

// StateType is where the states of what is made in the account are.
func (s *AccountSpec) StateType() StateType {
	if s.State == nil || s.State.Type == "" {
		return StatePlatform
	}
	return s.State.Type
}
