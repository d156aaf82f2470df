// Package gcp translates the platform's resources for Google Cloud: an account to credentials, a network, a cluster and
// a bucket to the variables of the configurations in /terraform/gcp, and what those put out to status. It talks to nobody.
package gcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// Cloud is the folder of the configurations, and Provider the name of the provider that they use.
const (
	Cloud    = "gcp"
	Provider = "google"
)

// Keys of the Secret with an account's credentials: a key file, which may be one of workload identity federation, or a
// token that somebody else renews.
const (
	KeyCredentials = "credentials.json"
	KeyAccessToken = "access_token"
)

// Environment is an account's credentials as tofu's environment.
func Environment(account *v1alpha1.Account, secret map[string][]byte) (map[string]string, error) {
	if errs := translate.Provider(account, v1alpha1.ProviderGCP); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if token := strings.TrimSpace(string(secret[KeyAccessToken])); token != "" {
		return map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": token}, nil
	}
	key := secret[KeyCredentials]
	if len(key) == 0 {
		return nil, fmt.Errorf("the credentials of account %s are incomplete: they need %s or %s", account.Name, KeyCredentials, KeyAccessToken)
	}
	var file struct {
		Type      string `json:"type"`
		ProjectID string `json:"project_id"`
	}
	if err := json.Unmarshal(key, &file); err != nil || file.Type == "" {
		return nil, fmt.Errorf("the credentials of account %s are no key file of Google Cloud", account.Name)
	}
	environment := map[string]string{"GOOGLE_CREDENTIALS": string(key)}
	if account.Spec.GCP.ServiceAccount != "" && file.Type != "service_account" {
		environment["GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"] = account.Spec.GCP.ServiceAccount
	}
	return environment, nil
}

// Stack is what a translation is for.
type Stack struct {
	Name         string
	InfraVersion string
	Account      *v1alpha1.Account
}

// Common is what all configurations take.
type Common struct {
	StackLabel string            `json:"stack_label"`
	Project    string            `json:"project"`
	Region     string            `json:"region"`
	Labels     map[string]string `json:"labels"`
}

// Label is a text as Google Cloud takes it for a label's value.
func Label(text string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(text))
	return label[:min(len(label), 63)]
}

func (s Stack) common(kind, name string) (Common, field.ErrorList) {
	errs := translate.Provider(s.Account, v1alpha1.ProviderGCP)
	common := Common{StackLabel: Label(s.Name), Region: s.Account.Spec.Region, Labels: map[string]string{"plasmacloud-" + kind: Label(name)}}
	if common.Region == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "region"), "an account of Google Cloud needs one, such as europe-west1"))
	}
	if s.Account.Spec.GCP == nil {
		return common, append(errs, field.Required(field.NewPath("spec", "gcp", "projectID"), "an account of Google Cloud needs its project"))
	}
	common.Project = s.Account.Spec.GCP.ProjectID
	return common, errs
}
