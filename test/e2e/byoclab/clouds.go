package byoclab

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	stubaws "plasmacloud.io/plasmacloud/test/stub/aws"
	stubazure "plasmacloud.io/plasmacloud/test/stub/azure"
	stubgcp "plasmacloud.io/plasmacloud/test/stub/gcp"
)

const zeros = "00000000-0000-0000-0000-000000000000"

// AWS is the stub of AWS, and the lab's way to it.
func (l *Lab) AWS(t *testing.T, delay time.Duration) (Cloud, *stubaws.Server) {
	t.Helper()
	stub := stubaws.New(stubaws.Config{Delay: delay})
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return Cloud{Lab: l, Name: aws.Cloud, Provider: aws.Provider, Environment: map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIASTUBSTUBSTUBSTUB", "AWS_SECRET_ACCESS_KEY": Secret, "AWS_ENDPOINT_URL": server.URL, "AWS_MAX_ATTEMPTS": "5",
		"HTTP_PROXY": server.URL, // S3's control plane is asked at <account>.<endpoint>, which nobody resolves
	}}, stub
}

// AWSAccount is the account in it.
func AWSAccount() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderAWS, Region: "eu-west-1"}}
}

// GCP is the stub of Google Cloud, and the lab's way to it.
func (l *Lab) GCP(t *testing.T, delay time.Duration) (Cloud, *stubgcp.Server) {
	t.Helper()
	stub := stubgcp.New(stubgcp.Config{Delay: delay, Project: "stub-project", Token: Secret})
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	environment := stubgcp.Environment(server.URL)
	environment["GOOGLE_OAUTH_ACCESS_TOKEN"] = Secret
	return Cloud{Lab: l, Name: gcp.Cloud, Provider: gcp.Provider, Environment: environment}, stub
}

// GCPAccount is the account in it.
func GCPAccount() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderGCP, Region: "europe-west1", GCP: &v1alpha1.GCPAccount{ProjectID: "stub-project"},
	}}
}

// Azure is the stub of Azure, and the lab's way to it.
func (l *Lab) Azure(t *testing.T, delay time.Duration) (Cloud, *stubazure.Server) {
	t.Helper()
	stub := stubazure.New(stubazure.Config{Delay: delay})
	server := httptest.NewTLSServer(stub)
	t.Cleanup(server.Close)
	return Cloud{Lab: l, Name: azure.Cloud, Provider: azure.Provider, Environment: map[string]string{
		"ARM_METADATA_HOSTNAME": strings.TrimPrefix(server.URL, "https://"), "ARM_SUBSCRIPTION_ID": zeros, "ARM_TENANT_ID": zeros, "ARM_CLIENT_ID": zeros, "ARM_CLIENT_SECRET": Secret,
		"ARM_USE_CLI": "false", "ARM_USE_MSI": "false", "SSL_CERT_FILE": Certificate(t, server), "SSL_CERT_DIR": "/nonexistent",
	}}, stub
}

// AzureAccount is the account in it.
func AzureAccount() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderAzure, Region: "westeurope", Azure: &v1alpha1.AzureAccount{SubscriptionID: zeros, TenantID: zeros, ClientID: zeros},
	}}
}

// Network is a network of the API's defaults.
func Network() *v1alpha1.Network {
	return &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: v1alpha1.NetworkSpec{Account: "prod", CIDR: "10.0.0.0/16"}}
}

// Cluster is a cluster of the API's defaults, with a group of as many nodes; without any, the cloud makes the nodes.
func Cluster(kind v1alpha1.ClusterType, nodes int32) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.ClusterSpec{
		Type: kind, Version: "v1.35", Network: "main", Access: v1alpha1.Access{Public: ptr.To(true), CIDRs: []string{"198.51.100.0/24"}},
		ClusterNetwork: v1alpha1.ClusterNetwork{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: "prismnet"},
	}}
	if nodes > 0 {
		cluster.Spec.NodeGroups = map[string]v1alpha1.NodeGroupTemplate{"workers": {
			MaxReplicas: 10, Replicas: &nodes, InstanceType: "u1.large", EphemeralStorage: ptr.To(resource.MustParse("30Gi")),
		}}
	}
	return cluster
}
