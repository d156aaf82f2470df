package account

import (
	"bytes"
	"slices"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// stateFlags are those of create that say where states are.
type stateFlags struct {
	backend, connectionFile                  string
	bucket, region, prefix, kmsKey, endpoint string
	resourceGroup, storageAccount, container string
	schema                                   string
}

// stateFlag is one of them, and the places that it is about.
type stateFlag struct {
	name, usage string
	value       *string
	of          []v1alpha1.StateType
}

func (f *stateFlags) all() []stateFlag {
	const s3, gcs, azurerm = v1alpha1.StateS3, v1alpha1.StateGCS, v1alpha1.StateAzureRM
	only := func(of ...v1alpha1.StateType) []v1alpha1.StateType { return of }
	return []stateFlag{
		{"state-bucket", "`name` of the bucket that states are in, for S3 and GCS", &f.bucket, only(s3, gcs)},
		{"state-region", "`region` of that bucket, the account's where it is not given, for S3", &f.region, only(s3)},
		{"state-prefix", "what the `names` of states begin with, for S3, GCS and AzureRM", &f.prefix, only(s3, gcs, azurerm)},
		{"state-kms-key", "`ARN` of the key that states are encrypted with, for S3", &f.kmsKey, only(s3)},
		{"state-endpoint", "`address` of S3, where it is not AWS's own", &f.endpoint, only(s3)},
		{"state-resource-group", "`name` of the storage account's resource group, for AzureRM", &f.resourceGroup, only(azurerm)},
		{"state-storage-account", "`name` of the storage account, for AzureRM", &f.storageAccount, only(azurerm)},
		{"state-container", "`name` of the container that states are in, for AzureRM", &f.container, only(azurerm)},
		{"state-schema", "`name` of the schema that states are in, for Postgres", &f.schema, only(v1alpha1.StatePostgres)},
	}
}

func (f *stateFlags) addTo(cmd *cobra.Command) {
	command.Choice(cmd, cmd.Flags(), &f.backend, "state-backend", "", "", "where the states of what is made in a cloud are, with the platform where it is not given",
		string(v1alpha1.StatePlatform), string(v1alpha1.StateS3), string(v1alpha1.StateGCS), string(v1alpha1.StateAzureRM), string(v1alpha1.StatePostgres))
	for _, flag := range f.all() {
		cmd.Flags().StringVar(flag.value, flag.name, "", flag.usage)
	}
	f.addConnection(cmd)
	cmd.MarkFlagsMutuallyExclusive(connectionFlag, "secret")
}

const connectionFlag = "state-connection-file"

// addConnection adds the flag for what is secret of PostgreSQL.
func (f *stateFlags) addConnection(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.connectionFile, connectionFlag, "", "`file` with the address of PostgreSQL, postgres://user:password@host/database, - for standard input")
	_ = cmd.MarkFlagFilename(connectionFlag)
}

// apply puts what was given into the spec. What is missing is the API's to say.
func (f *stateFlags) apply(spec *v1alpha1.AccountSpec) error {
	chosen := v1alpha1.StateType(f.backend)
	for _, flag := range f.all() {
		switch {
		case *flag.value == "" || slices.Contains(flag.of, chosen):
		case f.backend == "":
			return exit.Usagef("--%s: say with --state-backend where states are", flag.name)
		default:
			return exit.Usagef("--%s is not for --state-backend %s", flag.name, f.backend)
		}
	}
	prefix := v1alpha1.StatePrefix(f.prefix)
	switch chosen {
	case "":
		return nil
	case v1alpha1.StateS3:
		spec.State = &v1alpha1.AccountState{S3: &v1alpha1.S3State{Bucket: f.bucket, Region: f.region, Prefix: prefix, KMSKeyID: f.kmsKey, Endpoint: f.endpoint}}
	case v1alpha1.StateGCS:
		spec.State = &v1alpha1.AccountState{GCS: &v1alpha1.GCSState{Bucket: f.bucket, Prefix: prefix}}
	case v1alpha1.StateAzureRM:
		spec.State = &v1alpha1.AccountState{AzureRM: &v1alpha1.AzureRMState{
			ResourceGroup: f.resourceGroup, StorageAccount: f.storageAccount, Container: f.container, Prefix: prefix,
		}}
	case v1alpha1.StatePostgres:
		spec.State = &v1alpha1.AccountState{Postgres: &v1alpha1.PostgresState{Schema: f.schema}}
	default:
		spec.State = &v1alpha1.AccountState{}
	}
	spec.State.Type = chosen
	return nil
}

// readConnection reads the address of PostgreSQL into the data of a Secret, where there is one.
func (f *flags) readConnection(s *session.Session, spec *v1alpha1.AccountSpec, data map[string][]byte) error {
	if f.state.connectionFile == "" {
		return nil
	}
	if spec.StateType() != v1alpha1.StatePostgres {
		return exit.Usagef("--%s is for accounts whose states are in PostgreSQL: --state-backend Postgres", connectionFlag)
	}
	if f.state.connectionFile == "-" && f.credentialsFile == "-" {
		return exit.Usagef("--%s and --credentials-file cannot both be standard input", connectionFlag)
	}
	content, err := readFile(s, connectionFlag, f.state.connectionFile)
	if err != nil {
		return err
	}
	if content = bytes.TrimSpace(content); !bytes.HasPrefix(content, []byte("postgres://")) && !bytes.HasPrefix(content, []byte("postgresql://")) {
		return exit.Usagef("--%s: it has no address of PostgreSQL in it; that looks like postgres://user:password@host/database", connectionFlag)
	}
	data[v1alpha1.KeyPostgresConnection] = content
	return nil
}
