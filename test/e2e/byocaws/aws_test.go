//go:build e2e

// Package byocaws is the scenario of infrastructure in a customer's account of AWS, through the whole product: the command
// line, the API, tasks, deployers in pods, the real OpenTofu and provider, and in place of AWS a stub. The API of the EKS
// cluster is a real API server, which takes tokens as EKS does: so kubeconfigs and add-ons are tried for real. Network and
// cluster are brought to another infra version, a deployer is killed at its work, and in the end the stub is empty.
package byocaws

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/testchart"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	stubaws "plasmacloud.io/plasmacloud/test/stub/aws"
)

// secret is a credential that may be nowhere but in its Secret, and in the environment of the provider.
const secret = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

// scenario is the platform on a node, and beside it the stub, the API of the cluster there, and a repository of charts.
type scenario struct {
	byoclab.Product
	stub       *stubaws.Server
	url        string // of the stub
	charts     string // folder of the repository
	kubeconfig string // of the cluster
}

// life has the steps that are the same in every cloud.
func (s *scenario) life() *byoclab.Life { return &byoclab.Life{Platform: s.Product, Stub: s.stub} }

func TestByocAWS(t *testing.T) {
	s := &scenario{Product: byoclab.Product{Node: lab.New(t).Node(t, "host")}, charts: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "shop.yaml")}
	endpoint, ca := s.serveEKS(t)
	s.stub = stubaws.New(stubaws.Config{Delay: 2 * time.Second, Secret: secret, Endpoint: endpoint, CA: ca})
	lab.Step(t, "up", func(t *testing.T) { s.Cloud(t, "up", "--data-dir", s.Data.Path()) })
	s.serve(t)
	lab.Step(t, "account", s.account)
	lab.Step(t, "network", s.network)
	lab.Step(t, "cluster", s.cluster)
	lab.Step(t, "kubeconfig", s.access)
	lab.Step(t, "bucket", s.bucket)
	lab.Step(t, "what is there stays as it is", s.life().Unchanged)
	lab.Step(t, "scale", s.scale)
	lab.Step(t, "infra version", s.upgrade)
	lab.Step(t, "a deployer is killed", s.killed)
	lab.Step(t, "delete leaves nothing", s.remove)
	lab.Step(t, "nobody tells the credentials", func(t *testing.T) { s.NobodyTells(t, secret) })
	lab.Step(t, "down", func(t *testing.T) { s.Cloud(t, "down", "--data-dir", s.Data.Path(), "--purge", "--yes") })
}

// serve runs the stub and the repository on the node, and tells the platform where they are.
func (s *scenario) serve(t *testing.T) {
	t.Cleanup(func() {
		if unknown := s.stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	s.url = s.Serve(t, s.stub)
	s.Settings(t, "aws", map[string]string{
		"AWS_ENDPOINT_URL": s.url, "AWS_MAX_ATTEMPTS": "5",
		"HTTP_PROXY":         s.url, // S3's control plane is asked at <account>.<endpoint>, which nobody resolves
		"PLASMACLOUD_CHARTS": s.Serve(t, http.FileServer(http.Dir(s.charts))),
	})
}

func (s *scenario) account(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	content := "[default]\naws_access_key_id = AKIASTUBSTUBSTUBSTUB\naws_secret_access_key = " + secret + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cloud(t, "account", "create", "--name", "prod", "--provider", "aws", "--region", "eu-west-1", "--credentials-file", file, "--wait")
	if shown := s.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("verify says\n%s", shown)
	}
}

// manifest writes what the command line has no flags for.
func manifest(t *testing.T, kind, name, spec string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	content := fmt.Sprintf("apiVersion: plasmacloud.io/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n", kind, name, spec)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *scenario) network(t *testing.T) {
	s.Cloud(t, "vpc", "create", "-f", manifest(t, "Network", "main", "infraVersion: v1.0.0"), "--account", "prod", "--cidr", "10.0.0.0/16", "--wait")
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"Vpcs": 1, "Subnets": 9, "NatGateways": 1})
	if shown := s.Kubectl(t, "get", "network", "main", "-n", byoclab.Team, "-o", "jsonpath={.status.id} {.status.infraVersion}"); !strings.HasPrefix(shown, "vpc-") || !strings.HasSuffix(shown, " v1.0.0") {
		t.Errorf("the network's status says %s", shown)
	}
}

func (s *scenario) cluster(t *testing.T) {
	s.Cloud(t, "k8s", "create", "-f", manifest(t, "Cluster", "shop", "infraVersion: v1.0.0"), "--type", "eks", "--vpc", "main", "--version", "v1.35", "--workers", "2",
		"--instance-type", "u1.large", "--access-cidr", "198.51.100.0/24", "--wait")
	list := s.Cloud(t, "k8s", "list")
	for _, want := range []string{"shop", "EKS", "RUNNING", "v1.35", "2/2"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"clusters": 1, "nodegroups": 1, "addons": 5})
	// There is no role for the controller of load balancers yet, and that is said; the rest is there.
	if shown := s.addons(t); !strings.HasPrefix(shown, "False aws-load-balancer-controller: there is no role for it") {
		t.Errorf("of add-ons it says %s", shown)
	}
}

// addons is what the cluster's condition says of them.
func (s *scenario) addons(t *testing.T) string {
	t.Helper()
	return s.Kubectl(t, "get", "cluster", "shop", "-n", byoclab.Team, "-o", `jsonpath={.status.conditions[?(@.type=="AddonsInstalled")]['status','message']}`)
}

// access uses the kubeconfig as people do.
func (s *scenario) access(t *testing.T) {
	content := s.Cloud(t, "k8s", "kubeconfig", "shop")
	if strings.Contains(content, "token:") || strings.Contains(content, "k8s-aws-v1") || !strings.Contains(content, "credential") {
		t.Errorf("the kubeconfig is\n%s", content)
	}
	if err := os.WriteFile(s.kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if who := s.inCluster(t, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); who != "arn:aws:iam::123456789012:user/stub" {
		t.Errorf("the cluster takes the token for that of %s", who)
	}
	if class := s.inCluster(t, "get", "storageclass", "gp3", "-o", "jsonpath={.provisioner} {.parameters.encrypted}"); class != "ebs.csi.aws.com true" {
		t.Errorf("the storage class is %s", class)
	}
	if refusal := s.Refused(t, "k8s", "kubeconfig", "shop", "--role", "view"); !strings.Contains(refusal, "whose tokens the cloud makes") {
		t.Errorf("a kubeconfig for a role: %s", refusal)
	}
	// With keys that AWS does not know any more, the cluster lets nobody in, once it has forgotten the last one it asked for.
	s.stub.Revoke(true)
	lab.Eventually(t, 20*time.Second, "revoked keys open nothing", func() error {
		if output, err := s.KubectlWithCloud(s.CloudConfig(), s.kubeconfig, "get", "namespaces"); err == nil {
			return fmt.Errorf("they show %s", output)
		}
		return nil
	})
	s.stub.Revoke(false)
}

// inCluster runs kubectl with the cluster's kubeconfig.
func (s *scenario) inCluster(t *testing.T, args ...string) string {
	t.Helper()
	output, err := s.KubectlWithCloud(s.CloudConfig(), s.kubeconfig, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func (s *scenario) bucket(t *testing.T) {
	s.Cloud(t, "bucket", "create", "--name", "assets", "--cluster", "shop", "--wait")
	if list := s.Cloud(t, "bucket", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "assets-") {
		t.Errorf("the list shows\n%s", list)
	}
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"buckets": 1})
}

func (s *scenario) scale(t *testing.T) {
	s.Cloud(t, "k8s", "scale", "shop", "--workers", "3", "--wait")
	if plan := s.Planned(t, "shop", "Scale"); !strings.Contains(plan, "0 created, 1 changed, 0 replaced, 0 destroyed") {
		t.Errorf("scaling was planned as\n%s", plan)
	}
	if list := s.Cloud(t, "k8s", "list"); !strings.Contains(list, "3/3") {
		t.Errorf("the list shows\n%s", list)
	}
}

// upgrade brings network and cluster to the newer infra version, with which there is a role for the controller of load
// balancers: its chart comes from the repository.
func (s *scenario) upgrade(t *testing.T) {
	testchart.Write(t, s.charts, "aws-load-balancer-controller", "1.13.0", nil)
	testchart.Index(t, s.charts, "aws-load-balancer-controller", "1.13.0")
	for _, thing := range []struct{ kind, name string }{{"network", "main"}, {"cluster", "shop"}} {
		s.Kubectl(t, "patch", thing.kind, thing.name, "-n", byoclab.Team, "--type=merge", "-p", `{"spec":{"infraVersion":"v1.1.0"}}`)
		s.AwaitRunning(t, thing.kind, thing.name)
	}
	if plan := s.Planned(t, "shop", "Update"); !strings.Contains(plan, "0 replaced, 0 destroyed") || !strings.Contains(plan, "aws_iam_role.load_balancer[0]") {
		t.Errorf("the upgrade was planned as\n%s", plan)
	}
	if shown := s.addons(t); strings.TrimSpace(shown) != "True" {
		t.Errorf("of add-ons it says %s", shown)
	}
	values := s.inCluster(t, "get", "configmap", "aws-load-balancer-controller", "-n", "kube-system", "-o", "jsonpath={.data.values}")
	if !strings.Contains(values, `"clusterName":"`+s.stub.Names("clusters")[0]+`"`) || !strings.Contains(values, `"vpcId":"vpc-`) {
		t.Errorf("the chart was given %s", values)
	}
}

// killed kills a deployer with -9 while it makes a second network: what it left behind is taken over, and nothing is made
// twice.
func (s *scenario) killed(t *testing.T) {
	before := s.stub.Created()
	s.Cloud(t, "vpc", "create", "--name", "second", "--account", "prod", "--cidr", "10.1.0.0/16")
	lab.Eventually(t, 2*time.Minute, "something is made", func() error {
		if made := s.stub.Created()["Subnets"]; made < before["Subnets"]+3 {
			return fmt.Errorf("%d subnets", made)
		}
		return nil
	})
	byoclab.KillDeployer(t, "default.network.second")
	s.AwaitRunning(t, "network", "second") // all the same
	after := s.stub.Created()
	for kind, count := range map[string]int{"Vpcs": 1, "Subnets": 9, "InternetGateways": 1, "NatGateways": 1, "Addresses": 1} {
		if after[kind] != before[kind]+count {
			t.Errorf("%d %s were made, and before %d", after[kind], kind, before[kind])
		}
	}
}

func (s *scenario) remove(t *testing.T) {
	if refusal := s.Refused(t, "vpc", "delete", "main", "--yes"); !strings.Contains(refusal, "it still has clusters: shop") {
		t.Errorf("deleting its network: %s", refusal)
	}
	for _, thing := range [][]string{{"bucket", "assets"}, {"k8s", "shop"}, {"vpc", "main"}, {"vpc", "second"}, {"account", "prod"}} {
		s.Cloud(t, thing[0], "delete", thing[1], "--yes", "--wait")
	}
	if left := s.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
	s.AwaitNoDeployments(t)
}
