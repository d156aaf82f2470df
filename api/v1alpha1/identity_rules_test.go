package v1alpha1_test

import "slices"

const token = "user: ada, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func identityExamples() []example {
	const negative = "it cannot be less than nothing; remove it to lift the bound"
	return slices.Concat([]example{
		{kind: "Organization", accepts: []string{"quota: {vcpu: 0}", "quota: {vcpu: 500m}"}, rejects: []string{"quota: {vcpu: -1}"},
			field: "spec.quota.vcpu", says: negative},
		{kind: "Organization", accepts: []string{"quota: {memory: 0}", "quota: {memory: 1Ti}"}, rejects: []string{"quota: {memory: -1Gi}"},
			field: "spec.quota.memory", says: negative},
		{kind: "Project", accepts: []string{"organization: acme, quota: {vcpu: 0}"}, rejects: []string{`organization: acme, quota: {vcpu: "-1"}`},
			field: "spec.quota.vcpu", says: negative},
		{kind: "Project", accepts: []string{"organization: acme, quota: {memory: 0}"}, rejects: []string{"organization: acme, quota: {memory: -1Gi}"},
			field: "spec.quota.memory", says: negative},
		{kind: "Project", from: "organization: acme", accepts: []string{"organization: acme, displayName: x"}, rejects: []string{"organization: other"},
			field: "spec.organization", says: "a project stays with its organization; make a new project in the other one"},
	}, userExamples(), tokenExamples())
}

func userExamples() []example {
	return []example{
		{kind: "User", accepts: []string{"organization: acme, email: ada@example.com", "organization: acme, kind: ServiceAccount, projects: [{project: shop}]"},
			rejects: []string{"organization: acme", "organization: acme, kind: Person, projects: [{project: shop}]"},
			field:   "spec.email", says: "a person needs an e-mail address; it is the name to log in with"},
		{kind: "User", accepts: []string{"organization: acme, kind: ServiceAccount, projects: [{project: shop}]"},
			rejects: []string{"organization: acme, kind: ServiceAccount", "organization: acme, kind: ServiceAccount, projects: [{project: shop}, {project: blog}]"},
			field:   "spec.projects", says: "a service account belongs to exactly one project; name that one"},
		{kind: "User", accepts: []string{"organization: acme, email: ada@localhost"}, rejects: []string{"organization: acme, email: ada", `organization: acme, email: "a da@example.com"`},
			field: "spec.email", says: "this is no e-mail address; it looks like name@example.com"},
		{kind: "User", from: "organization: acme, email: ada@example.com, projects: [{project: shop}]",
			accepts: []string{"organization: acme, email: lovelace@example.com, projects: [{project: shop}]"},
			rejects: []string{"organization: acme, kind: ServiceAccount, projects: [{project: shop}]"},
			field:   "spec.kind", says: "it cannot change; make a new user"},
		{kind: "User", from: "organization: acme, email: ada@example.com",
			accepts: []string{"organization: acme, email: ada@example.com, disabled: true"}, rejects: []string{"organization: other, email: ada@example.com"},
			field: "spec.organization", says: "it cannot change; make a new user"},
	}
}

func tokenExamples() []example {
	const other = "user: ada, sha256: a000000000000000000000000000000000000000000000000000000000000000"
	return []example{
		{kind: "AccessToken", accepts: []string{token}, rejects: []string{"user: ada, sha256: secret", "user: ada, sha256: " + `"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"`},
			field: "spec.sha256", says: "this is no SHA-256 sum of a token; it has 64 hexadecimal digits in lower case"},
		{kind: "AccessToken", from: token, accepts: []string{token + ", description: new"}, rejects: []string{other},
			field: "spec.sha256", says: "it cannot change; make a new token"},
		{kind: "AccessToken", from: token, accepts: []string{token + ", revoked: true"}, rejects: []string{"user: eve" + token[len("user: ada"):]},
			field: "spec.user", says: "a token cannot change hands; make a new token"},
		{kind: "AccessToken", from: token + ", project: shop", accepts: []string{token + ", project: shop, description: new"},
			rejects: []string{token, token + ", project: blog", token + `, project: ""`},
			field:   "spec.project", says: "what a token is good for cannot change; make a new token"},
		{kind: "AccessToken", from: token, accepts: []string{token + `, project: ""`}, rejects: []string{token + ", project: shop"},
			field: "spec.project", says: "what a token is good for cannot change; make a new token"},
		{kind: "AccessToken", from: token + ", revoked: true", accepts: []string{token + ", revoked: true, description: lost"}, rejects: []string{token, token + ", revoked: false"},
			field: "spec.revoked", says: "a revoked token stays revoked; make a new token"},
	}
}
