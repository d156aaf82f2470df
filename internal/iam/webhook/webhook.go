// Package webhook writes the files that make an API server ask, or trust, the identity service: the kubeconfig of
// kube-apiserver's --authentication-token-webhook-config-file, and the configuration of --authentication-config for API
// servers that verify tokens offline.
package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// FileName is what the webhook's configuration is called.
const FileName = "iam-webhook.yaml"

// Names in the file.
const (
	clusterName = "iam-webhook"
	userName    = "k8s-apiserver"
	contextName = "webhook"
)

// Config is where the service is, and how the API server proves who it is. The files are read again when they change.
type Config struct {
	// URL of the service, without a path, such as https://iam-server:3000.
	URL string
	// ServerName is the name that its certificate has to have, where that is not the one in the URL.
	ServerName string
	// CA, Certificate and Key are paths, as the API server sees them.
	CA, Certificate, Key string
}

// Validate tells what is wrong with it.
func (c Config) Validate() error {
	parsed, err := url.Parse(c.URL)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" {
		return fmt.Errorf("%q is not the URL of an identity service: it looks like https://iam-server:3000", c.URL)
	}
	if c.CA == "" || c.Certificate == "" || c.Key == "" {
		return errors.New("the webhook needs the files of the authority, of the certificate and of its key")
	}
	return nil
}

// Render returns the content of the webhook's configuration file.
func (c Config) Render() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("render webhook configuration: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{
		Server:               strings.TrimRight(c.URL, "/") + wire.PathAuthenticate,
		TLSServerName:        c.ServerName,
		CertificateAuthority: c.CA,
	}
	config.AuthInfos[userName] = &clientcmdapi.AuthInfo{ClientCertificate: c.Certificate, ClientKey: c.Key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: userName}
	config.CurrentContext = contextName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("render webhook configuration: %w", err)
	}
	return data, nil
}

// Offline is an API server that verifies session tokens by itself, with the keys that the service publishes. It does not
// know access tokens, and hears of a revoked user only when the last token has expired.
type Offline struct {
	// Issuer is the service's URL.
	Issuer string
	// CA is the authority's certificate, in PEM.
	CA []byte
	// Audiences that are accepted: the API server's own name, or all tokens where there are none.
	Audiences []string
}

// Render returns the content of the API server's authentication configuration file.
func (o Offline) Render() ([]byte, error) {
	audiences := o.Audiences
	if len(audiences) == 0 {
		audiences = []string{token.Audience}
	}
	expression := func(text string) apiserverv1.PrefixedClaimOrExpression {
		return apiserverv1.PrefixedClaimOrExpression{Expression: text}
	}
	authenticator := apiserverv1.JWTAuthenticator{
		Issuer: apiserverv1.Issuer{
			URL: o.Issuer, CertificateAuthority: string(o.CA), Audiences: audiences,
			AudienceMatchPolicy: apiserverv1.AudienceMatchPolicyMatchAny,
		},
		ClaimMappings: apiserverv1.ClaimMappings{
			Username: expression(`claims.preferred_username`),
			UID:      apiserverv1.ClaimOrExpression{Claim: "sub"},
			Groups:   expression(`claims.?groups.orValue([])`),
			Extra: []apiserverv1.ExtraMapping{
				{Key: "plasmacloud.io/org-id", ValueExpression: `claims.?org_id.orValue("")`},
				{Key: "plasmacloud.io/project-id", ValueExpression: `claims.?project_id.orValue("")`},
				{Key: "plasmacloud.io/roles", ValueExpression: `claims.?roles.orValue([])`},
			},
		},
	}
	config := apiserverv1.AuthenticationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		JWT:      []apiserverv1.JWTAuthenticator{authenticator},
	}
	data, err := json.Marshal(config)
	if err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return nil, fmt.Errorf("render authentication configuration: %w", err)
	}
	return data, nil
}
