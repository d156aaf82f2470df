package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
)

// Needed are the permissions that the configurations below /terraform/aws need: those that make things. Who may make
// something, and not look at it or remove it, is told so by AWS when it comes to that.
func Needed() []string {
	return []string{
		"ec2:CreateVpc", "ec2:DeleteVpc", "ec2:DescribeVpcs", "ec2:ModifyVpcAttribute", "ec2:CreateTags",
		"ec2:CreateSubnet", "ec2:DeleteSubnet", "ec2:CreateRouteTable", "ec2:CreateRoute", "ec2:AssociateRouteTable",
		"ec2:CreateInternetGateway", "ec2:AttachInternetGateway", "ec2:AllocateAddress", "ec2:ReleaseAddress", "ec2:CreateNatGateway",
		"ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:AuthorizeSecurityGroupEgress", "ec2:CreateNetworkAclEntry",
		"ec2:CreateVpcEndpoint", "ec2:CreateFlowLogs", "ec2:CreateLaunchTemplate",
		"eks:CreateCluster", "eks:DeleteCluster", "eks:DescribeCluster", "eks:UpdateClusterConfig", "eks:UpdateClusterVersion", "eks:TagResource",
		"eks:CreateNodegroup", "eks:UpdateNodegroupConfig", "eks:UpdateNodegroupVersion", "eks:DeleteNodegroup",
		"eks:CreateAddon", "eks:DeleteAddon", "eks:CreateAccessEntry", "eks:AssociateAccessPolicy", "eks:CreatePodIdentityAssociation",
		"iam:CreateRole", "iam:DeleteRole", "iam:PassRole", "iam:AttachRolePolicy", "iam:PutRolePolicy", "iam:TagRole", "iam:CreateOpenIDConnectProvider",
		"iam:CreateServiceLinkedRole",
		"kms:CreateKey", "kms:ScheduleKeyDeletion", "kms:CreateAlias", "kms:TagResource",
		"logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup",
		"s3:CreateBucket", "s3:DeleteBucket", "s3:PutBucketPolicy", "s3:PutBucketVersioning", "s3:PutEncryptionConfiguration", "s3:PutBucketPublicAccessBlock",
		"sqs:CreateQueue", "events:PutRule", "events:PutTargets", "tag:GetResources",
	}
}

// rejected are the words that AWS does not accept credentials with.
var rejected = []string{
	"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "AuthFailure",
	"IncompleteSignature", "InvalidToken",
}

// Verify asks AWS who the account's credentials are, and what they may do.
func Verify(ctx context.Context, environment map[string]string, who Identity) (cloudapi.Verdict, error) {
	config, err := Config(environment, who)
	if err != nil {
		return cloudapi.Verdict{}, err
	}
	caller, err := tokens(config, environment).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return cloudapi.Verdict{}, classify("ask AWS who the account is", err, who.RoleARN != "")
	}
	verdict := cloudapi.Verdict{Identity: aws.ToString(caller.Arn), Simulated: true}
	principal := principalOf(verdict.Identity, who)
	if principal == "" { // the root user may do everything, and nobody simulates that
		return verdict, nil
	}
	verdict.Missing, err = simulate(ctx, iam.NewFromConfig(config), principal)
	if refused := (smithy.APIError)(nil); errors.As(err, &refused) && !slices.Contains(rejected, refused.ErrorCode()) {
		verdict.Unknown = fmt.Sprintf("AWS does not tell what %s may do (%s); allow it iam:SimulatePrincipalPolicy", principal, refused.ErrorCode())
		return verdict, nil
	}
	if err != nil {
		return verdict, classify("ask AWS what the account may do", err, false)
	}
	return verdict, nil
}

// classify tells credentials that are worth nothing from an AWS that does not answer. A role that may not be assumed is the
// former.
func classify(what string, err error, assumes bool) error {
	var refused smithy.APIError
	if errors.As(err, &refused) && (slices.Contains(rejected, refused.ErrorCode()) || assumes && strings.HasPrefix(refused.ErrorCode(), "AccessDenied")) {
		return fmt.Errorf("%w: %s: %s", cloudapi.ErrRejected, what, refused.ErrorCode())
	}
	return fmt.Errorf("%s: %w", what, err)
}

// principalOf is whose policies are looked at: the role's that is assumed, and not those of the session.
func principalOf(caller string, who Identity) string {
	if who.RoleARN != "" {
		return who.RoleARN
	}
	parts := strings.SplitN(caller, ":", 6)
	if len(parts) < 6 || parts[5] == "root" {
		return ""
	}
	if role, found := strings.CutPrefix(parts[5], "assumed-role/"); found {
		name, _, _ := strings.Cut(role, "/")
		return fmt.Sprintf("arn:%s:iam::%s:role/%s", parts[1], parts[4], name)
	}
	return caller
}

// simulate is which of the needed permissions a principal's policies do not give it.
func simulate(ctx context.Context, client *iam.Client, principal string) ([]string, error) {
	pages := iam.NewSimulatePrincipalPolicyPaginator(client, &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &principal, ActionNames: Needed()})
	var missing []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, result := range page.EvaluationResults {
			if result.EvalDecision != types.PolicyEvaluationDecisionTypeAllowed {
				missing = append(missing, aws.ToString(result.EvalActionName))
			}
		}
	}
	slices.Sort(missing)
	return missing, nil
}
