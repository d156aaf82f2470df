// Package live runs the scenarios of clusters in clouds against real accounts: the same steps that run against stubs, on a
// platform that is installed on this host. `make byoc-live CLOUDS=…` runs it. It costs money, so clouds are named, and their
// credentials are in the environment: without them it refuses, and says what is missing. Nothing of it has run yet.
package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// VariableClouds names the clouds, separated by blanks or commas.
const VariableClouds = "BYOC_LIVE_CLOUDS"

// needs are the variables that a cloud's credentials are in.
func needs(cloud string) []string {
	switch cloud {
	case "aws":
		return []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
	case "gcp":
		return []string{"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_PROJECT", "GOOGLE_REGION"}
	case "azure":
		return []string{"ARM_SUBSCRIPTION_ID", "ARM_TENANT_ID", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET", "ARM_LOCATION"}
	}
	return nil
}

// Products are the scenarios of the clouds that the environment names. The error tells all that is missing.
func Products(environment func(string) string) ([]*byoclab.Life, error) {
	names := strings.FieldsFunc(environment(VariableClouds), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		return nil, errors.New("no cloud is named: CLOUDS is one or more of aws, gcp and azure, and what is made there costs money")
	}
	var products []*byoclab.Life
	var problems []error
	for _, name := range names {
		wanted := needs(name)
		if wanted == nil {
			problems = append(problems, fmt.Errorf("%s: there is no such cloud; it is aws, gcp or azure", name))
			continue
		}
		var missing []string
		for _, variable := range wanted {
			if environment(variable) == "" {
				missing = append(missing, variable)
			}
		}
		if len(missing) > 0 {
			problems = append(problems, fmt.Errorf("%s: the environment lacks %s", name, strings.Join(missing, ", ")))
			continue
		}
		product, err := productOf(name, environment)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		products = append(products, product)
	}
	return products, errors.Join(problems...)
}

// productOf is the scenario of a cloud whose variables are all there.
func productOf(cloud string, environment func(string) string) (*byoclab.Life, error) {
	p := &byoclab.Life{Provider: cloud, Timeout: "1h"}
	switch cloud {
	case "aws":
		p.Type, p.Secret = "eks", environment("AWS_SECRET_ACCESS_KEY")
		p.Credentials = fmt.Sprintf("aws_access_key_id = %s\naws_secret_access_key = %s\n", environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"))
		if session := environment("AWS_SESSION_TOKEN"); session != "" {
			p.Credentials += "aws_session_token = " + session + "\n"
		}
		p.Account = []string{"--provider", "AWS", "--region", environment("AWS_REGION")}
	case "gcp":
		p.Type = "gke"
		key, err := os.ReadFile(environment("GOOGLE_APPLICATION_CREDENTIALS"))
		if err != nil {
			return nil, err
		}
		var parsed struct {
			ID string `json:"private_key_id"`
		}
		if err := json.Unmarshal(key, &parsed); err != nil || parsed.ID == "" {
			return nil, errors.New("GOOGLE_APPLICATION_CREDENTIALS names no key file of a service account")
		}
		p.Credentials, p.Secret = string(key), parsed.ID
		p.Account = []string{"--provider", "GCP", "--region", environment("GOOGLE_REGION"), "--gcp-project", environment("GOOGLE_PROJECT")}
	case "azure":
		p.Type, p.Credentials, p.Secret = "aks", environment("ARM_CLIENT_SECRET"), environment("ARM_CLIENT_SECRET")
		p.Account = []string{
			"--provider", "Azure", "--region", environment("ARM_LOCATION"), "--azure-subscription", environment("ARM_SUBSCRIPTION_ID"),
			"--azure-tenant", environment("ARM_TENANT_ID"), "--azure-client", environment("ARM_CLIENT_ID"),
		}
	}
	return p, nil
}
