package cloud

import (
	"context"
	"fmt"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	awsapi "plasmacloud.io/plasmacloud/internal/cloudapi/aws"
	azureapi "plasmacloud.io/plasmacloud/internal/cloudapi/azure"
	gcpapi "plasmacloud.io/plasmacloud/internal/cloudapi/gcp"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
)

// Access is how the API of a cluster is reached, and a token for it, which was made for whoever asked and is stored nowhere.
type Access struct {
	Endpoint string
	// CA is who has signed the endpoint's certificate, as PEM; empty where it is one that everybody trusts.
	CA    []byte
	Token cloudapi.Token

	environment map[string]string
}

// reach is what access to a cluster is made from.
type reach struct {
	account     *v1alpha1.Account
	environment map[string]string
	made        outputs
	now         time.Time
}

// Access makes access to a cluster that is there, with the credentials of its account as they are now.
func (p *Provisioner) Access(ctx context.Context, cluster *v1alpha1.Cluster) (*Access, error) {
	network, err := p.Resources.Network(ctx, cluster.Namespace, cluster.Spec.Network)
	if err != nil {
		return nil, err
	}
	account, err := p.Resources.Account(ctx, cluster.Namespace, network.Spec.Account)
	if err != nil {
		return nil, err
	}
	translate, err := translatorOf(account.Spec.Provider)
	if err != nil {
		return nil, err
	}
	made, err := p.outputs(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("cluster %s is not there yet", cluster.Name)
	}
	environment, err := p.Environment(ctx, translate.cloud(), deployer.Account{Namespace: account.Namespace, Name: account.Name})
	if err != nil {
		return nil, err
	}
	access, err := translate.access(ctx, reach{account: account, environment: environment, made: made, now: time.Now()})
	if err != nil {
		return nil, err
	}
	access.environment = environment
	return access, nil
}

func (inAWS) access(ctx context.Context, r reach) (*Access, error) {
	var facts aws.ClusterOutputs
	if err := r.made.into(&facts); err != nil {
		return nil, err
	}
	ca, err := facts.CA()
	if err != nil {
		return nil, err
	}
	who := awsapi.Identity{Region: r.account.Spec.Region}
	if own := r.account.Spec.AWS; own != nil {
		who.RoleARN, who.ExternalID = own.RoleARN, own.ExternalID
	}
	token, err := awsapi.Token(ctx, r.environment, who, facts.Name, r.now)
	return &Access{Endpoint: facts.Endpoint, CA: ca, Token: token}, err
}

func (inGCP) access(ctx context.Context, r reach) (*Access, error) {
	var facts gcp.ClusterOutputs
	if err := r.made.into(&facts); err != nil {
		return nil, err
	}
	token, err := gcpapi.Token(ctx, r.environment)
	if err != nil || facts.DNSEndpoint != "" { // whose certificate is Google's own
		return &Access{Endpoint: facts.DNSEndpoint, Token: token}, err
	}
	ca, err := facts.CA()
	return &Access{Endpoint: facts.Endpoint, CA: ca, Token: token}, err
}

func (inAzure) access(ctx context.Context, r reach) (*Access, error) {
	var facts azure.ClusterOutputs
	if err := r.made.into(&facts); err != nil {
		return nil, err
	}
	ca, err := facts.CA()
	if err != nil {
		return nil, err
	}
	token, err := azureapi.Token(ctx, r.environment)
	return &Access{Endpoint: facts.Endpoint, CA: ca, Token: token}, err
}
