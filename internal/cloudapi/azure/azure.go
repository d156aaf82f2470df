// Package azure asks Azure: its directory, Entra, for tokens that AKS takes, and Resource Manager for what an account may do.
package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// scope is AKS: the application that all its API servers are.
const scope = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"

// Token is one that the APIs of clusters take, for the account's service principal.
func Token(ctx context.Context, environment map[string]string) (cloudapi.Token, error) {
	site, err := locate(ctx, environment)
	if err != nil {
		return cloudapi.Token{}, err
	}
	return site.token(ctx, environment, scope)
}

// site is where Azure is: the public one, or another that the environment names.
type site struct {
	client  *http.Client
	options azcore.ClientOptions
	manager string // Resource Manager
	private bool
}

func locate(ctx context.Context, environment map[string]string) (site, error) {
	client, err := cloudapi.Client(environment)
	if err != nil {
		return site{}, err
	}
	found := site{client: client, options: azcore.ClientOptions{Transport: client, Cloud: cloud.AzurePublic}, manager: "https://management.azure.com/"}
	if host := environment["ARM_METADATA_HOSTNAME"]; host != "" {
		found.private = true
		found.options.Cloud.ActiveDirectoryAuthorityHost, found.manager, err = describe(ctx, client, host)
	}
	return found, err
}

// token is one for a scope.
func (s site) token(ctx context.Context, environment map[string]string, scope string) (cloudapi.Token, error) {
	principal, err := principal(environment, s.options, s.private)
	if err != nil {
		return cloudapi.Token{}, err
	}
	token, err := principal.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}, TenantID: environment["ARM_TENANT_ID"]})
	if refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && refused.RawResponse != nil {
		return cloudapi.Token{}, fmt.Errorf("make token for Azure: Entra answers %s", refused.RawResponse.Status)
	}
	if err != nil {
		return cloudapi.Token{}, fmt.Errorf("make token for Azure: %w", err)
	}
	return cloudapi.Token{Value: token.Token, Expires: token.ExpiresOn}, nil
}

// principal is the account's, by what its credentials are.
func principal(environment map[string]string, options azcore.ClientOptions, private bool) (azcore.TokenCredential, error) {
	tenant, id := environment["ARM_TENANT_ID"], environment["ARM_CLIENT_ID"]
	switch {
	case environment["ARM_OIDC_TOKEN"] != "":
		assertion := func(context.Context) (string, error) { return environment["ARM_OIDC_TOKEN"], nil }
		return azidentity.NewClientAssertionCredential(tenant, id, assertion, &azidentity.ClientAssertionCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	case environment["ARM_CLIENT_CERTIFICATE"] != "":
		content, err := base64.StdEncoding.DecodeString(environment["ARM_CLIENT_CERTIFICATE"])
		if err != nil {
			return nil, errors.New("the account's certificate is not base64")
		}
		certificates, key, err := azidentity.ParseCertificates(content, []byte(environment["ARM_CLIENT_CERTIFICATE_PASSWORD"]))
		if err != nil {
			return nil, errors.New("the account's certificate is no PKCS#12 with a key that its password opens")
		}
		return azidentity.NewClientCertificateCredential(tenant, id, certificates, key, &azidentity.ClientCertificateCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	case environment["ARM_CLIENT_SECRET"] != "":
		return azidentity.NewClientSecretCredential(tenant, id, environment["ARM_CLIENT_SECRET"], &azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	}
	return nil, errors.New("the account has no credentials of a service principal")
}

// describe is who hands out tokens in a cloud that is not the public one, and where its Resource Manager is.
func describe(ctx context.Context, client *http.Client, host string) (authority, manager string, err error) {
	address := url.URL{Scheme: "https", Host: host, Path: "/metadata/endpoints", RawQuery: "api-version=2022-09-01"}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", "", fmt.Errorf("find out about Azure at %s: %w", host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", "", fmt.Errorf("find out about Azure at %s: %w", host, err)
	}
	defer func() { _ = response.Body.Close() }()
	var metadata struct {
		ResourceManager string `json:"resourceManager"`
		Authentication  struct {
			LoginEndpoint string `json:"loginEndpoint"`
		} `json:"authentication"`
	}
	if err := json.NewDecoder(response.Body).Decode(&metadata); err != nil || metadata.Authentication.LoginEndpoint == "" {
		return "", "", fmt.Errorf("find out about Azure at %s: it does not say who hands out tokens", host)
	}
	return metadata.Authentication.LoginEndpoint, metadata.ResourceManager, nil
}
