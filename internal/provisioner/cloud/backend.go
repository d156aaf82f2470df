package cloud

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
)

// BackendOf is where the state of a stack is, if its account keeps it; nil where the platform does. Each stack has a place of
// its own there. Nothing of it is secret: credentials are those of the account, which its deployers have in their environment.
func BackendOf(account *v1alpha1.Account, stack string) *terraform.Backend {
	state := account.Spec.State
	switch account.Spec.StateType() {
	case v1alpha1.StateS3:
		return &terraform.Backend{Type: terraform.BackendS3, Settings: inS3(state.S3, &account.Spec, stack)}
	case v1alpha1.StateGCS:
		return &terraform.Backend{Type: terraform.BackendGCS, Settings: map[string]any{
			"bucket": state.GCS.Bucket, "prefix": path.Join(string(state.GCS.Prefix), stack),
		}}
	case v1alpha1.StateAzureRM:
		return &terraform.Backend{Type: terraform.BackendAzureRM, Settings: map[string]any{
			"resource_group_name": state.AzureRM.ResourceGroup, "storage_account_name": state.AzureRM.StorageAccount,
			"container_name": state.AzureRM.Container, "key": stateFile(state.AzureRM.Prefix, stack),
		}}
	case v1alpha1.StatePostgres:
		var chosen v1alpha1.PostgresState
		if state.Postgres != nil {
			chosen = *state.Postgres
		}
		return &terraform.Backend{Type: terraform.BackendPostgres, Settings: map[string]any{
			"schema_name": cmp.Or(chosen.Schema, defaultSchema), "table_name": tableName(stack),
			"skip_index_creation": true, // its name would have to be another one for each table, which has one already
		}}
	}
	return nil
}

// inS3 are the settings for a bucket of S3, which is opened in the account's role, if it has one.
func inS3(bucket *v1alpha1.S3State, account *v1alpha1.AccountSpec, stack string) map[string]any {
	settings := map[string]any{
		"bucket": bucket.Bucket, "region": cmp.Or(bucket.Region, account.Region), "key": stateFile(bucket.Prefix, stack),
		"encrypt": true, "use_lockfile": true,
	}
	if bucket.KMSKeyID != "" {
		settings["kms_key_id"] = bucket.KMSKeyID
	}
	if bucket.Endpoint != "" {
		settings["endpoints"], settings["use_path_style"] = map[string]any{"s3": bucket.Endpoint}, true
	}
	if account.AWS != nil && account.AWS.RoleARN != "" {
		role := map[string]any{"role_arn": account.AWS.RoleARN}
		if account.AWS.ExternalID != "" {
			role["external_id"] = account.AWS.ExternalID
		}
		settings["assume_role"] = role
	}
	return settings
}

func stateFile(prefix v1alpha1.StatePrefix, stack string) string {
	return path.Join(string(prefix), stack+".tfstate")
}

// defaultSchema is that of the API, for accounts that have settled on none.
const defaultSchema = "plasmacloud"

// longestTable is how long PostgreSQL lets a name be; it cuts off the rest.
const longestTable = 63

// tableName is the stack's name, or what of it makes a name that no other stack has.
func tableName(stack string) string {
	if len(stack) <= longestTable {
		return stack
	}
	sum := sha256.Sum256([]byte(stack))
	end := "." + hex.EncodeToString(sum[:8])
	return stack[:longestTable-len(end)] + end
}
