package cloud

import (
	"context"
	"fmt"

	conditions "k8s.io/apimachinery/pkg/api/meta"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	awsapi "plasmacloud.io/plasmacloud/internal/cloudapi/aws"
	azureapi "plasmacloud.io/plasmacloud/internal/cloudapi/azure"
	gcpapi "plasmacloud.io/plasmacloud/internal/cloudapi/gcp"
	"plasmacloud.io/plasmacloud/internal/deployer"
)

// Verify asks the cloud of an account what it thinks of its credentials, as they are now.
func (p *Provisioner) Verify(ctx context.Context, account *v1alpha1.Account) (cloudapi.Verdict, error) {
	translate, err := translatorOf(account.Spec.Provider)
	if err != nil {
		return cloudapi.Verdict{}, err
	}
	environment, err := p.Environment(ctx, translate.cloud(), deployer.Account{Namespace: account.Namespace, Name: account.Name})
	if err != nil {
		return cloudapi.Verdict{}, err
	}
	return translate.verify(ctx, account, environment)
}

func (inAWS) verify(ctx context.Context, account *v1alpha1.Account, environment map[string]string) (cloudapi.Verdict, error) {
	who := awsapi.Identity{Region: account.Spec.Region}
	if own := account.Spec.AWS; own != nil {
		who.RoleARN, who.ExternalID = own.RoleARN, own.ExternalID
	}
	return awsapi.Verify(ctx, environment, who)
}

func (inGCP) verify(ctx context.Context, account *v1alpha1.Account, environment map[string]string) (cloudapi.Verdict, error) {
	if account.Spec.GCP == nil {
		return cloudapi.Verdict{}, fmt.Errorf("account %s has no project", account.Name)
	}
	return gcpapi.Verify(ctx, environment, account.Spec.GCP.ProjectID)
}

func (inAzure) verify(ctx context.Context, _ *v1alpha1.Account, environment map[string]string) (cloudapi.Verdict, error) {
	return azureapi.Verify(ctx, environment)
}

// revoked says what is known already: the cloud does not accept the account's credentials, and nothing need be begun with
// them. They are looked at every now and then.
func revoked(account *v1alpha1.Account) error {
	verified := conditions.FindStatusCondition(account.Status.Conditions, v1alpha1.ConditionVerified)
	if verified == nil || verified.Reason != v1alpha1.ReasonRevoked {
		return nil
	}
	return fmt.Errorf("account %s: %s", account.Name, verified.Message)
}
