// Package azure translates the platform's resources for Azure: an account to credentials, a network, a cluster and a
// bucket to the variables of the configurations in /terraform/azure, and what those put out to status. It talks to nobody.
package azure

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// Cloud is the folder of the configurations, and Provider the name of the provider that they use.
const (
	Cloud    = "azure"
	Provider = "azurerm"
)

// Keys of the Secret with an account's credentials: a secret of the service principal, a certificate (PKCS#12, in
// base64) with its password, or a token of a federated identity.
const (
	KeyClientSecret        = "client_secret"
	KeyCertificate         = "client_certificate"
	KeyCertificatePassword = "client_certificate_password"
	KeyFederatedToken      = "oidc_token"
)

// Environment is an account's credentials as tofu's environment.
func Environment(account *v1alpha1.Account, secret map[string][]byte) (map[string]string, error) {
	if errs := translate.Provider(account, v1alpha1.ProviderAzure); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	azure := account.Spec.Azure
	if azure == nil || azure.ClientID == "" {
		return nil, fmt.Errorf("account %s has no clientID of a service principal", account.Name)
	}
	environment := map[string]string{
		"ARM_SUBSCRIPTION_ID": azure.SubscriptionID, "ARM_TENANT_ID": azure.TenantID, "ARM_CLIENT_ID": azure.ClientID,
		// Neither the identity of the machine that we run on nor that of somebody who is logged in there.
		"ARM_USE_MSI": "false", "ARM_USE_CLI": "false",
	}
	value := func(key string) string { return strings.TrimSpace(string(secret[key])) }
	switch {
	case value(KeyFederatedToken) != "":
		environment["ARM_USE_OIDC"], environment["ARM_OIDC_TOKEN"] = "true", value(KeyFederatedToken)
	case value(KeyCertificate) != "":
		environment["ARM_CLIENT_CERTIFICATE"], environment["ARM_CLIENT_CERTIFICATE_PASSWORD"] = value(KeyCertificate), value(KeyCertificatePassword)
	case value(KeyClientSecret) != "":
		environment["ARM_CLIENT_SECRET"] = value(KeyClientSecret)
	default:
		return nil, fmt.Errorf("the credentials of account %s are incomplete: they need %s, %s or %s", account.Name, KeyClientSecret, KeyCertificate, KeyFederatedToken)
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
	Stack    string            `json:"stack"`
	Location string            `json:"location"`
	Tags     map[string]string `json:"tags"`
}

func (s Stack) common(kind, name string) (Common, field.ErrorList) {
	errs := translate.Provider(s.Account, v1alpha1.ProviderAzure)
	common := Common{Stack: s.Name, Location: s.Account.Spec.Region, Tags: map[string]string{"plasmacloud-" + kind: name}}
	if common.Location == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "region"), "an account of Azure needs one, such as westeurope"))
	}
	return common, errs
}
