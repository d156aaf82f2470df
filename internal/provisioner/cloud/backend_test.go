package cloud

import (
	"encoding/json"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
)

func TestWhereStatesAre(t *testing.T) {
	const stack = "shop.network.main.1a2b3c4d"
	role := &v1alpha1.AWSAccount{RoleARN: "arn:aws:iam::123456789012:role/cloud", ExternalID: "shop"}
	for want, spec := range map[string]v1alpha1.AccountSpec{
		`null`: {Provider: v1alpha1.ProviderAWS, State: &v1alpha1.AccountState{Type: v1alpha1.StatePlatform}},
		`{"type":"s3","settings":{"bucket":"states","encrypt":true,"key":"shop.network.main.1a2b3c4d.tfstate","region":"eu-west-1","use_lockfile":true}}`: {
			Region: "eu-west-1", State: &v1alpha1.AccountState{Type: v1alpha1.StateS3, S3: &v1alpha1.S3State{Bucket: "states"}},
		},
		`{"type":"s3","settings":{"assume_role":{"external_id":"shop","role_arn":"arn:aws:iam::123456789012:role/cloud"},"bucket":"states","encrypt":true,` +
			`"endpoints":{"s3":"https://s3.example.com"},"key":"a/b/shop.network.main.1a2b3c4d.tfstate","kms_key_id":"arn:key","region":"us-east-1","use_lockfile":true,"use_path_style":true}}`: {
			Region: "eu-west-1", AWS: role, State: &v1alpha1.AccountState{Type: v1alpha1.StateS3, S3: &v1alpha1.S3State{
				Bucket: "states", Region: "us-east-1", Prefix: "a/b", KMSKeyID: "arn:key", Endpoint: "https://s3.example.com",
			}},
		},
		`{"type":"gcs","settings":{"bucket":"states","prefix":"a/shop.network.main.1a2b3c4d"}}`: {
			State: &v1alpha1.AccountState{Type: v1alpha1.StateGCS, GCS: &v1alpha1.GCSState{Bucket: "states", Prefix: "a"}},
		},
		`{"type":"azurerm","settings":{"container_name":"states","key":"shop.network.main.1a2b3c4d.tfstate","resource_group_name":"platform","storage_account_name":"acme"}}`: {
			State: &v1alpha1.AccountState{Type: v1alpha1.StateAzureRM, AzureRM: &v1alpha1.AzureRMState{ResourceGroup: "platform", StorageAccount: "acme", Container: "states"}},
		},
		`{"type":"pg","settings":{"schema_name":"plasmacloud","skip_index_creation":true,"table_name":"shop.network.main.1a2b3c4d"}}`: {
			State: &v1alpha1.AccountState{Type: v1alpha1.StatePostgres},
		},
	} {
		have, err := json.Marshal(BackendOf(&v1alpha1.Account{Spec: spec}, stack))
		if err != nil || string(have) != want {
			t.Errorf("%s, %v\nwant %s", have, err, want)
		}
	}
	if BackendOf(&v1alpha1.Account{}, stack) != nil {
		t.Error("an account that says nothing keeps its states")
	}
}

func TestNoTwoStacksShareATable(t *testing.T) {
	long := strings.Repeat("a", 60)
	one, other := tableName(long+".main"), tableName(long+".more")
	if one == other || len(one) != 63 || tableName(long) != long {
		t.Errorf("%s, %s", one, other)
	}
}

func TestADeployerIsToldWhereTheStateIs(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded, Outputs: raw(t, madeNetwork)})
	account, _ := w.Resources.Account(t.Context(), "", "")
	account.Spec.State = &v1alpha1.AccountState{Type: v1alpha1.StateGCS, GCS: &v1alpha1.GCSState{Bucket: "states"}}
	if _, err := w.run(v1alpha1.OperationCreate, network(), nil); err != nil {
		t.Fatal(err)
	}
	if asked := w.deployments.asked[0]; asked.Backend == nil || asked.Backend.Settings["prefix"] != asked.Stack {
		t.Errorf("asked for %+v", asked)
	}
}

func TestPostgreSQLIsReachedByASecret(t *testing.T) {
	account := &v1alpha1.Account{Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderGCP, GCP: &v1alpha1.GCPAccount{}, State: &v1alpha1.AccountState{Type: v1alpha1.StatePostgres},
	}}
	for connection, good := range map[string]bool{
		"postgres://states:hushhush@db.example.com/states?sslmode=verify-full\n": true, "postgresql://db/states": true,
		"": false, "host=db password=hushhush": false, "https://u:hushhush@db": false, "postgres://u:hushhush@db:port/x": false,
	} {
		environment, err := Environment(account, map[string][]byte{"access_token": []byte("t"), "PG_CONN_STR": []byte(connection)})
		if (err == nil) != good || good && environment["PG_CONN_STR"] != strings.TrimSpace(connection) {
			t.Errorf("%q: %v, %v", connection, environment, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hushhush") || !strings.Contains(err.Error(), "PG_CONN_STR")) {
			t.Error(err)
		}
	}
}
