package aws_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"plasmacloud.io/plasmacloud/test/stub/aws"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// account is a stub, and AWS's own clients for it.
type account struct {
	*testing.T
	stub   *aws.Server
	config awssdk.Config
	now    time.Time
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{T: t, now: time.Unix(1700000000, 0)}
	a.stub = aws.New(aws.Config{Delay: time.Minute, Now: func() time.Time { return a.now }})
	server := httptest.NewServer(a.stub)
	t.Cleanup(server.Close)
	a.config = awssdk.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIASTUB", "secret", ""),
		RetryMaxAttempts: 3, HTTPClient: server.Client(),
	}
	return a
}

func (a *account) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// query asks EC2, whose own client takes minutes to compile, by a signed request.
func (a *account) query(action string, parameters ...string) (int, map[string]string) {
	a.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	body := form.Encode()
	request, err := http.NewRequestWithContext(a.Context(), http.MethodPost, *a.config.BaseEndpoint, bytes.NewReader([]byte(body)))
	a.must(err)
	keys, err := a.config.Credentials.Retrieve(a.Context())
	a.must(err)
	sum := sha256.Sum256([]byte(body))
	a.must(v4.NewSigner().SignHTTP(a.Context(), keys, request, hex.EncodeToString(sum[:]), "ec2", a.config.Region, a.now))
	response, err := http.DefaultClient.Do(request)
	a.must(err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	a.must(err)
	leaves := map[string]string{} // the first text of each element
	decoder, name := xml.NewDecoder(bytes.NewReader(data)), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return response.StatusCode, leaves
		}
		a.must(err)
		switch token := token.(type) {
		case xml.StartElement:
			name = token.Name.Local
		case xml.CharData:
			if leaves[name] == "" {
				leaves[name] = string(token)
			}
		}
	}
}

// role makes a role, with IAM's own client.
func (a *account) role(name string) string {
	a.Helper()
	made, err := iam.NewFromConfig(a.config).CreateRole(a.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: awssdk.String(`{"Version":"2012-10-17"}`)})
	a.must(err)
	return *made.Role.Arn
}

func TestAClusterLivesAndDies(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	identity, err := sts.NewFromConfig(a.config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	a.must(err)
	if *identity.Account != "123456789012" {
		t.Errorf("the account is %s", *identity.Account)
	}
	_, vpc := a.query("CreateVpc", "CidrBlock", "10.0.0.0/16", "TagSpecification.1.ResourceType", "vpc", "TagSpecification.1.Tag.1.Key", "Name", "TagSpecification.1.Tag.1.Value", "main")
	_, subnet := a.query("CreateSubnet", "VpcId", vpc["vpcId"], "CidrBlock", "10.0.0.0/20", "AvailabilityZone", "eu-west-1a")
	client := eks.NewFromConfig(a.config)
	name := "shop"
	_, err = client.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: &name, Version: awssdk.String("1.35"), RoleArn: awssdk.String(a.role("cluster")),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{subnet["subnetId"]}}, Tags: map[string]string{"a": "b"},
	})
	a.must(err)
	described := func() *ekstypes.Cluster {
		t.Helper()
		made, err := client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
		a.must(err)
		return made.Cluster
	}
	if status := described().Status; status != ekstypes.ClusterStatusCreating {
		t.Errorf("at first it is %s", status)
	}
	group := &eks.CreateNodegroupInput{ClusterName: &name, NodegroupName: awssdk.String("workers"), NodeRole: awssdk.String(a.role("node")), Subnets: []string{subnet["subnetId"]}, ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: awssdk.Int32(3)}}
	if _, err := client.CreateNodegroup(ctx, group); code(err) != "InvalidRequestException" {
		t.Errorf("nodes of a cluster that is not there yet: %v", err)
	}
	a.now = a.now.Add(time.Minute)
	if cluster := described(); cluster.Status != ekstypes.ClusterStatusActive || cluster.Endpoint == nil || cluster.Identity.Oidc.Issuer == nil || cluster.Tags["a"] != "b" || *cluster.ResourcesVpcConfig.VpcId != vpc["vpcId"] {
		t.Errorf("later it is %+v", cluster)
	}
	_, err = client.CreateNodegroup(ctx, group)
	a.must(err)
	if _, err := client.CreateNodegroup(ctx, group); code(err) != "ResourceInUseException" {
		t.Errorf("the same group again: %v", err)
	}
	if _, err := client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &name}); code(err) != "ResourceInUseException" {
		t.Errorf("deleting a cluster with nodes: %v", err)
	}
	if status, failed := a.query("DeleteSubnet", "SubnetId", subnet["subnetId"]); status != 400 || failed["Code"] != "DependencyViolation" {
		t.Errorf("deleting the cluster's subnet: %d %v", status, failed)
	}
	_, err = client.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: &name, NodegroupName: group.NodegroupName})
	a.must(err)
	a.now = a.now.Add(time.Minute)
	_, err = client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &name})
	a.must(err)
	if status := described().Status; status != ekstypes.ClusterStatusDeleting {
		t.Errorf("on its way out it is %s", status)
	}
	a.now = a.now.Add(time.Minute)
	if _, err := client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name}); code(err) != "ResourceNotFoundException" {
		t.Errorf("in the end: %v", err)
	}
	a.query("DeleteSubnet", "SubnetId", subnet["subnetId"])
	a.query("DeleteVpc", "VpcId", vpc["vpcId"])
	if left := a.stub.Inventory(); len(left) != 1 || left["roles"] != 2 {
		t.Errorf("this is left: %v", left)
	}
	if unknown := a.stub.Unknown(); len(unknown) > 0 {
		t.Errorf("it does not know %v", unknown)
	}
}

func TestRolesAndBuckets(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	a.role("access")
	roles, name, policy := iam.NewFromConfig(a.config), "access", "arn:aws:iam::aws:policy/ReadOnlyAccess"
	_, err := roles.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &name, PolicyArn: &policy})
	a.must(err)
	if _, err := roles.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name}); code(err) != "DeleteConflict" {
		t.Errorf("deleting a role with policies: %v", err)
	}
	attached, err := roles.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &name})
	a.must(err)
	if len(attached.AttachedPolicies) != 1 || *attached.AttachedPolicies[0].PolicyName != "ReadOnlyAccess" {
		t.Errorf("attached are %+v", attached.AttachedPolicies)
	}
	buckets, bucket := s3.NewFromConfig(a.config), "assets"
	_, err = buckets.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	a.must(err)
	_, err = buckets.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket})
	a.must(err)
	if _, err := buckets.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &bucket}); code(err) != "NoSuchPublicAccessBlockConfiguration" {
		t.Errorf("a setting that is not there: %v", err)
	}
	_, err = buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	a.must(err)
}

func TestBadDays(t *testing.T) {
	a := newAccount(t)
	client := sts.NewFromConfig(a.config)
	ask := func() error {
		_, err := client.GetCallerIdentity(context.Background(), &sts.GetCallerIdentityInput{})
		return err
	}
	a.stub.Spoil(ledger.Fault{Request: "sts:GetCallerIdentity", Status: 503, Code: "Throttling", Times: 2})
	if err := ask(); err != nil || a.stub.Requests()["sts:GetCallerIdentity"] != 3 {
		t.Errorf("throttled twice: %v after %v", err, a.stub.Requests())
	}
	a.stub.Revoke(true)
	if err := ask(); code(err) != "InvalidClientTokenId" {
		t.Errorf("revoked: %v", err)
	}
	a.stub.Revoke(false)
	if _, err := eks.NewFromConfig(a.config).ListFargateProfiles(t.Context(), &eks.ListFargateProfilesInput{ClusterName: awssdk.String("shop")}); code(err) != "StubUnknownAction" || len(a.stub.Unknown()) != 1 {
		t.Errorf("what the stub does not know: %v, %v", err, a.stub.Unknown())
	}
}
