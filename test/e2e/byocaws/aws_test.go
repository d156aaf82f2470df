//go:build e2e

// Package byocaws is the scenario of infrastructure in a customer's account of AWS, through the whole product: the command
// line, the API, tasks, deployers in pods, the real OpenTofu and provider, and in place of AWS a stub. The API of the EKS
// cluster is a real API server, which takes tokens as EKS does: so kubeconfigs and add-ons are tried for real. Network and
// cluster are brought to another infra version, deployers are killed at their work, what somebody else has changed is put
// right, credentials are revoked, and in the end the stub is empty but for what was forgotten.
package byocaws

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/testapi"
	"plasmacloud.io/plasmacloud/internal/testchart"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	stubaws "plasmacloud.io/plasmacloud/test/stub/aws"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
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
	eks        *testapi.Server
}

func TestByocAWS(t *testing.T) {
	s := &scenario{Product: byoclab.Product{Node: lab.New(t).Node(t, "host")}, charts: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "shop.yaml")}
	endpoint, ca := s.serveEKS(t)
	s.stub = stubaws.New(stubaws.Config{Delay: 2 * time.Second, Secret: secret, Endpoint: endpoint, CA: ca})
	life := &byoclab.Life{Platform: s.Product, Stub: s.stub} // the steps that are the same in every cloud
	lab.Step(t, "up", func(t *testing.T) { s.Cloud(t, "up", "--data-dir", s.Data.Path()) })
	s.serve(t)
	lab.Step(t, "account", s.account)
	lab.Step(t, "network", s.network)
	lab.Step(t, "cluster", s.cluster)
	lab.Step(t, "kubeconfig", s.access)
	lab.Step(t, "bucket", s.bucket)
	lab.Step(t, "what is there stays as it is", life.Unchanged)
	lab.Step(t, "scale", s.scale)
	lab.Step(t, "infra version", s.upgrade)
	lab.Step(t, "drift", func(t *testing.T) {
		life.Drift(t, func() int {
			return s.stub.Change("nodegroups", func(group map[string]any, _ map[string]string) {
				group["scalingConfig"] = map[string]any{"minSize": 0, "maxSize": 10, "desiredSize": 1}
			})
		})
	})
	lab.Step(t, "deployers are killed in a busy cloud", func(t *testing.T) {
		made := map[string]int{"Vpcs": 1, "Subnets": 9, "InternetGateways": 1, "NatGateways": 1, "Addresses": 1}
		life.Killed(t, "Subnets", made, ledger.Fault{Status: 503, Code: "RequestLimitExceeded", Times: 3}, ledger.Fault{Request: "ec2:CreateSubnet", Status: 500, Code: "InternalError", Times: 2})
	})
	lab.Step(t, "credentials are revoked", func(t *testing.T) { life.Revoked(t, "aws_vpc.this vpc-") })
	lab.Step(t, "a load balancer is left", s.balanced)
	lab.Step(t, "delete leaves nothing", func(t *testing.T) { life.Remove(t, "NatGateways"); s.vacated(t) })
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
	return manifestOf(t, fmt.Sprintf("apiVersion: plasmacloud.io/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n", kind, name, spec))
}

func manifestOf(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
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
	s.Cloud(t, "vpc", "upgrade", "main", "--infra-version", "v1.1.0", "--wait")
	s.Cloud(t, "k8s", "upgrade", "shop", "--infra-version", "v1.1.0", "--wait")
	if plan := s.Planned(t, "shop", "Update"); !strings.Contains(plan, "0 replaced, 0 destroyed") || !strings.Contains(plan, "aws_iam_role.load_balancer[0]") {
		t.Errorf("the upgrade was planned as\n%s\nof\n%s", plan, s.Kubectl(t, "get", "tasks", "-n", byoclab.Team))
	}
	if shown := s.addons(t); strings.TrimSpace(shown) != "True" {
		t.Errorf("of add-ons it says %s", shown)
	}
	values := s.inCluster(t, "get", "configmap", "aws-load-balancer-controller", "-n", "kube-system", "-o", "jsonpath={.data.values}")
	if !strings.Contains(values, `"clusterName":"`+s.stub.Names("clusters")[0]+`"`) || !strings.Contains(values, `"vpcId":"vpc-`) {
		t.Errorf("the chart was given %s", values)
	}
}

// balanced gives the cluster a load balancer, as people do, and a disk.
func (s *scenario) balanced(t *testing.T) {
	s.inCluster(t, "create", "service", "loadbalancer", "front", "--tcp=80")
	s.inCluster(t, "apply", "-f", manifestOf(t, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
		csi: {driver: ebs.csi.aws.com, volumeHandle: vol-0a1b2c}, claimRef: {namespace: default, name: data}}}`))
}

// vacated tells that the cluster was asked to remove its load balancer before it was deleted, and that the disk, which stays,
// is listed.
func (s *scenario) vacated(t *testing.T) {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.eks.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("default").Get(t.Context(), "front", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the load balancer's service: %v", err)
	}
	list := s.Kubectl(t, "get", "tasks", "-n", byoclab.Team, "-o", `jsonpath={range .items[?(@.spec.resource.name=="shop")]}{.status.outputs.remains}{end}`)
	if list != "disk vol-0a1b2c of ebs.csi.aws.com, claim default/data" {
		t.Errorf("of what is left the tasks say %q", list)
	}
}
