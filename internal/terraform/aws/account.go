// Package aws translates the platform's resources for AWS: an account to credentials, a network, a cluster and a bucket
// to the variables of the configurations in /terraform/aws, and what those put out to status. It talks to nobody.
package aws

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// Cloud is the folder of the configurations, and Provider the name of the provider that they use.
const (
	Cloud    = "aws"
	Provider = "aws"
)

// Keys of the Secret with an account's credentials.
const (
	KeyAccessKeyID     = "aws_access_key_id"
	KeySecretAccessKey = "aws_secret_access_key"
	KeySessionToken    = "aws_session_token"
)

// Environment is an account's credentials as tofu's environment. An account with a role and no keys uses the identity
// that the deployer has where it runs.
func Environment(account *v1alpha1.Account, secret map[string][]byte) (map[string]string, error) {
	if errs := translate.Provider(account, v1alpha1.ProviderAWS); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	environment := map[string]string{}
	id, key := string(secret[KeyAccessKeyID]), string(secret[KeySecretAccessKey])
	if (id == "") != (key == "") {
		return nil, fmt.Errorf("the credentials of account %s are incomplete: they need %s and %s", account.Name, KeyAccessKeyID, KeySecretAccessKey)
	}
	if id == "" && (account.Spec.AWS == nil || account.Spec.AWS.RoleARN == "") {
		return nil, fmt.Errorf("account %s has neither keys nor a role to assume", account.Name)
	}
	if id != "" {
		environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"] = strings.TrimSpace(id), strings.TrimSpace(key)
	}
	if token := strings.TrimSpace(string(secret[KeySessionToken])); token != "" {
		environment["AWS_SESSION_TOKEN"] = token
	}
	return environment, nil
}

// Common is what all configurations take.
type Common struct {
	Stack      string            `json:"stack"`
	Region     string            `json:"region"`
	AccountID  string            `json:"account_id"`
	RoleARN    string            `json:"role_arn"`
	ExternalID string            `json:"external_id"`
	Tags       map[string]string `json:"tags"`
}

// Stack is what a translation is for: the stack's name, its infra version, and the account it lies in.
type Stack struct {
	Name         string
	InfraVersion string
	Account      *v1alpha1.Account
}

func (s Stack) common(tags map[string]string) (Common, field.ErrorList) {
	errs := translate.Provider(s.Account, v1alpha1.ProviderAWS)
	common := Common{Stack: s.Name, Region: s.Account.Spec.Region, Tags: tags}
	if common.Region == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "region"), "an account of AWS needs one, such as eu-west-1"))
	}
	if account := s.Account.Spec.AWS; account != nil {
		common.RoleARN, common.ExternalID = account.RoleARN, account.ExternalID
		if parts := strings.Split(account.RoleARN, ":"); len(parts) > 4 {
			common.AccountID = parts[4] // what was meant is the account of the role, whatever the credentials are for
		}
	}
	return common, errs
}
