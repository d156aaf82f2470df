// Package aws asks AWS: for tokens that EKS takes, for what carries a stack's tag, and for what an account may do.
package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// Identity is who asks: the holder of the keys, or the role that is assumed with them, as a stack's variables name it.
type Identity struct {
	Region     string `json:"region"`
	RoleARN    string `json:"role_arn"`
	ExternalID string `json:"external_id"`
}

// sessionName is by whom AWS's own log knows the platform.
const sessionName = "plasmacloud"

// Config is a client's, with the keys and endpoints of an environment.
func Config(environment map[string]string, who Identity) (aws.Config, error) {
	id, key := environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
	if id == "" || key == "" {
		return aws.Config{}, errors.New("the account has no keys, and the platform itself has no identity in AWS: give the account keys that may assume its role")
	}
	client, err := cloudapi.Client(environment)
	if err != nil {
		return aws.Config{}, err
	}
	config := aws.Config{
		Region: who.Region, HTTPClient: client,
		Credentials: credentials.NewStaticCredentialsProvider(id, key, environment["AWS_SESSION_TOKEN"]),
	}
	if endpoint := environment["AWS_ENDPOINT_URL"]; endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	if who.RoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(tokens(config, environment), who.RoleARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = sessionName
			if who.ExternalID != "" {
				o.ExternalID = &who.ExternalID
			}
		})
		config.Credentials = aws.NewCredentialsCache(role)
	}
	return config, nil
}

// tokens is a client of the service that knows who is who.
func tokens(config aws.Config, environment map[string]string) *sts.Client {
	return sts.NewFromConfig(config, func(o *sts.Options) {
		if endpoint := environment["AWS_ENDPOINT_URL_STS"]; endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
}

const (
	// tokenPrefix is before every token, and clusterHeader says which cluster it is for.
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "x-k8s-aws-id"
	// EKS takes a token for this long, whatever the request in it says of itself.
	tokenLifetime = 15 * time.Minute
	// tokenMargin is how much earlier another one is asked for.
	tokenMargin = time.Minute
)

// Token is one that the API of a cluster takes: a request to AWS to tell who signed it, which is not sent by us but by the
// cluster.
func Token(ctx context.Context, environment map[string]string, who Identity, cluster string, now time.Time) (cloudapi.Token, error) {
	config, err := Config(environment, who)
	if err != nil {
		return cloudapi.Token{}, err
	}
	presigner := sts.NewPresignClient(tokens(config, environment))
	signed, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, func(o *sts.PresignOptions) {
		o.Presigner = &forCluster{next: cmp.Or[sts.HTTPPresignerV4](o.Presigner, v4.NewSigner()), cluster: cluster}
	})
	if err != nil {
		return cloudapi.Token{}, fmt.Errorf("make token for EKS cluster %s: %w", cluster, err)
	}
	return cloudapi.Token{Value: tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed.URL)), Expires: now.Add(tokenLifetime - tokenMargin)}, nil
}

// forCluster signs along what the request is for, and that it is good for a minute.
type forCluster struct {
	next    sts.HTTPPresignerV4
	cluster string
}

// PresignHTTP implements sts.HTTPPresignerV4.
func (p *forCluster) PresignHTTP(ctx context.Context, keys aws.Credentials, r *http.Request, payload, service, region string, at time.Time, options ...func(*v4.SignerOptions)) (string, http.Header, error) {
	r.Header.Set(clusterHeader, p.cluster)
	query := r.URL.Query()
	query.Set("X-Amz-Expires", "60")
	r.URL.RawQuery = query.Encode()
	return p.next.PresignHTTP(ctx, keys, r, payload, service, region, at, options...)
}
