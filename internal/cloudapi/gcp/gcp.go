// Package gcp asks Google Cloud for tokens, which the APIs of its clusters take as well, and for what an account may do.
package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// What tokens are for: GKE asks for the first, and knows people by their address with the second.
const (
	scopePlatform = "https://www.googleapis.com/auth/cloud-platform"
	scopeAddress  = "https://www.googleapis.com/auth/userinfo.email"
)

const (
	// endpoint hands out tokens. A key file names one too, but that is its owner's word: the platform would ask whatever
	// address they like, from inside.
	endpoint = "https://oauth2.googleapis.com/token"
	// EndpointVariable is how an operator names another one.
	EndpointVariable = "GOOGLE_OAUTH_TOKEN_ENDPOINT"
)

// errFederated is a key file that names somebody else's word for who its bearer is, such as that of the cluster that a deployer
// runs in.
var errFederated = errors.New("the account's credentials are federated: only deployers, where they run, can use them")

// Token is one for everything in Google Cloud, and for the APIs of its clusters.
func Token(ctx context.Context, environment map[string]string) (cloudapi.Token, error) {
	if given := environment["GOOGLE_OAUTH_ACCESS_TOKEN"]; given != "" {
		return cloudapi.Token{Value: given}, nil
	}
	key := []byte(environment["GOOGLE_CREDENTIALS"])
	var file struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(key, &file); err != nil {
		return cloudapi.Token{}, errors.New("the account's credentials are no key file of Google Cloud")
	}
	if file.Type == "external_account" {
		return cloudapi.Token{}, errFederated
	}
	if file.Type != "service_account" {
		return cloudapi.Token{}, fmt.Errorf("the platform makes tokens with keys of service accounts, and the account has one of type %q", file.Type)
	}
	config, err := google.JWTConfigFromJSON(key, scopePlatform, scopeAddress)
	if err != nil {
		return cloudapi.Token{}, errors.New("the account's credentials are no key of a service account") // the text may have parts of it
	}
	config.TokenURL = cmp.Or(environment[EndpointVariable], endpoint)
	config.Audience = endpoint
	client, err := cloudapi.Client(environment)
	if err != nil {
		return cloudapi.Token{}, err
	}
	token, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return cloudapi.Token{}, fmt.Errorf("make token for Google Cloud: it answers %s", refused.Response.Status)
	}
	if err != nil {
		return cloudapi.Token{}, fmt.Errorf("make token for Google Cloud: %w", err)
	}
	return cloudapi.Token{Value: token.AccessToken, Expires: token.Expiry}, nil
}
