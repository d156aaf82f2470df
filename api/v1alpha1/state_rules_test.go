package v1alpha1_test

// stateExamples are those of where the states of an account are.
func stateExamples() []example {
	const (
		s3       = aws + ", state: {type: S3, s3: {bucket: acme-states"
		gcs      = gcp + ", state: {type: GCS, gcs: {bucket: acme-states"
		azurerm  = azure + ", state: {type: AzureRM, azurerm: {resourceGroup: platform, storageAccount: acmestates, container: states"
		postgres = gcp + ", state: {type: Postgres"
		end      = "}}"

		prefix = "this is no beginning of names; it has letters, digits, '-', '_', '.' and '/' between them, such as plasmacloud/prod"
		cannot = "it cannot change: states are not moved, and without them nobody would know what there is; make a new account"
	)
	only := func(where string) string { return "it is only for states in " + where + "; remove it, or set type" }
	return []example{
		{kind: "Account", accepts: []string{gcp + ", state: {}", s3 + end, gcs + end, azurerm + end}, rejects: []string{"state: {}", hosts + ", state: {type: Platform}"},
			field: "spec.state", says: "it is only for accounts of clouds; remove it, or set spec.provider"},
		{kind: "Account", accepts: []string{postgres + "}", azure + ", state: {type: Postgres}"}, rejects: []string{gcp + ", state: {type: S3, s3: {bucket: acme-states}}", azure + ", state: {type: GCS, gcs: {bucket: acme-states}}"},
			field: "spec.state.type", says: "the account's credentials do not open it: S3 is for provider AWS, GCS for GCP, AzureRM for Azure, Platform and Postgres for all of them"},
		{kind: "Account", accepts: []string{postgres + ", postgres: {schema: states" + end}, rejects: []string{aws + ", state: {type: Postgres}"},
			field: "spec.credentials", says: "states in PostgreSQL need a Secret with the connection string under the key PG_CONN_STR"},
		{kind: "Account", from: s3 + end, accepts: []string{s3 + "}}, deployer: {remote: true}"}, rejects: []string{aws, s3 + ", prefix: other" + end, aws + ", state: {type: Platform}"},
			field: "spec.state", says: cannot},
		{kind: "Account", from: gcp, accepts: []string{gcp + ", deployer: {}"}, rejects: []string{gcs + end, postgres + "}"}, field: "spec.state", says: cannot},

		{kind: "Account", accepts: []string{s3 + end}, rejects: []string{aws + ", state: {type: S3}"}, field: "spec.state.s3", says: "states in S3 need a bucket"},
		{kind: "Account", accepts: []string{gcs + end}, rejects: []string{gcp + ", state: {type: GCS}"}, field: "spec.state.gcs", says: "states in Cloud Storage need a bucket"},
		{kind: "Account", accepts: []string{azurerm + end}, rejects: []string{azure + ", state: {type: AzureRM}"},
			field: "spec.state.azurerm", says: "states in Azure need a resourceGroup, a storageAccount and a container"},
		{kind: "Account", accepts: []string{s3 + end}, rejects: []string{aws + ", state: {s3: {bucket: acme-states}}"}, field: "spec.state.s3", says: only("S3")},
		{kind: "Account", accepts: []string{gcs + end}, rejects: []string{gcp + ", state: {gcs: {bucket: acme-states}}"}, field: "spec.state.gcs", says: only("Cloud Storage")},
		{kind: "Account", accepts: []string{azurerm + end}, rejects: []string{azure + ", state: {azurerm: {resourceGroup: a, storageAccount: abc, container: abc}}"}, field: "spec.state.azurerm", says: only("Azure")},
		{kind: "Account", accepts: []string{postgres + ", postgres: {}}"}, rejects: []string{gcp + ", state: {postgres: {}}"}, field: "spec.state.postgres", says: only("PostgreSQL")},

		{kind: "Account", accepts: []string{aws + ", state: {type: S3, s3: {bucket: states.acme.example}}"}, rejects: []string{aws + ", state: {type: S3, s3: {bucket: States}}", aws + ", state: {type: S3, s3: {bucket: a}}"},
			field: "spec.state.s3.bucket", says: "this is no name of a bucket; it has 3 to 63 lower-case letters, digits, '-' and '.'"},
		{kind: "Account", accepts: []string{gcp + ", state: {type: GCS, gcs: {bucket: acme_states}}"}, rejects: []string{gcp + ", state: {type: GCS, gcs: {bucket: 'gs://states'}}"},
			field: "spec.state.gcs.bucket", says: "this is no name of a bucket; it has 3 to 222 lower-case letters, digits, '-', '_' and '.'"},
		{kind: "Account", accepts: []string{azurerm + end}, rejects: []string{azure + ", state: {type: AzureRM, azurerm: {resourceGroup: a, storageAccount: acme-states, container: abc}}"},
			field: "spec.state.azurerm.storageAccount", says: "this is no name of a storage account; it has 3 to 24 lower-case letters and digits"},
		{kind: "Account", accepts: []string{azurerm + end}, rejects: []string{azure + ", state: {type: AzureRM, azurerm: {resourceGroup: a, storageAccount: abc, container: States}}"},
			field: "spec.state.azurerm.container", says: "this is no name of a container; it has 3 to 63 lower-case letters, digits and '-'"},
		{kind: "Account", accepts: []string{postgres + ", postgres: {schema: _states2" + end}, rejects: []string{postgres + ", postgres: {schema: 2states" + end, postgres + ", postgres: {schema: 'a b'" + end},
			field: "spec.state.postgres.schema", says: "this is no name of a schema; it has lower-case letters, digits and '_', and begins with no digit"},
		{kind: "Account", accepts: []string{s3 + ", endpoint: 'https://s3.example.com'" + end, s3 + ", endpoint: ''" + end}, rejects: []string{s3 + ", endpoint: s3.example.com" + end, s3 + ", endpoint: 'http://s3.example.com'" + end},
			field: "spec.state.s3.endpoint", says: "this is no address of S3; it looks like https://s3.example.com"},

		{kind: "Account", accepts: []string{s3 + ", prefix: a/b_c.d" + end, s3 + ", prefix: ''" + end}, rejects: []string{s3 + ", prefix: /a" + end, s3 + ", prefix: a/" + end}, field: "spec.state.s3.prefix", says: prefix},
		{kind: "Account", accepts: []string{gcs + ", prefix: a" + end}, rejects: []string{gcs + ", prefix: a//b" + end}, field: "spec.state.gcs.prefix", says: prefix},
		{kind: "Account", accepts: []string{azurerm + ", prefix: a" + end}, rejects: []string{azurerm + ", prefix: 'a b'" + end}, field: "spec.state.azurerm.prefix", says: prefix},
	}
}
