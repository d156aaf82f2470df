package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud/addons"
	"plasmacloud.io/plasmacloud/internal/task"
)

// deployments answer with one report after the other, and remember what they were asked.
type deployments struct {
	reports   []deployer.Report
	asked     []deployer.Request
	unknown   bool
	forgotten []string
	cancelled []string // IDs of operations
	ending    int      // how often a cancelled one has not ended yet
}

func (d *deployments) Ensure(_ context.Context, request deployer.Request) (deployer.Report, error) {
	d.asked = append(d.asked, request)
	report := d.reports[0]
	if len(d.reports) > 1 {
		d.reports = d.reports[1:]
	}
	return report, nil
}

func (d *deployments) Cancel(_ context.Context, _, id string) (bool, error) {
	d.cancelled = append(d.cancelled, id)
	d.ending--
	return d.ending < 0, nil
}

func (d *deployments) Known(context.Context, string) (bool, error) { return !d.unknown, nil }

func (d *deployments) Forget(_ context.Context, stack string) error {
	d.forgotten = append(d.forgotten, stack)
	return nil
}

// states are what other stacks have put out.
type states struct {
	outputs   string
	resources map[string]string
	deleted   []string
	abandoned []string
}

func (s *states) Outputs(context.Context, string) (map[string]json.RawMessage, error) {
	outputs := map[string]json.RawMessage{}
	return outputs, json.Unmarshal([]byte(s.outputs), &outputs)
}

func (s *states) Delete(_ context.Context, stack string) error {
	s.deleted = append(s.deleted, stack)
	return nil
}

func (s *states) Resources(context.Context, string) (map[string]string, error) {
	return s.resources, nil
}

func (s *states) Abandon(_ context.Context, stack string) error {
	s.abandoned = append(s.abandoned, stack)
	return nil
}

// resources are those of a project with an account of one provider.
type resources struct{ account *v1alpha1.Account }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "project-shop", UID: types.UID("uid of " + name)}
}

func (r resources) Account(context.Context, string, string) (*v1alpha1.Account, error) {
	return r.account, nil
}

func (resources) Network(context.Context, string, string) (*v1alpha1.Network, error) {
	return network(), nil
}

func (resources) Cluster(context.Context, string, string) (*v1alpha1.Cluster, error) {
	return cluster(), nil
}

func network() *v1alpha1.Network {
	return &v1alpha1.Network{ObjectMeta: meta("main"), Spec: v1alpha1.NetworkSpec{Account: "prod", CIDR: "10.0.0.0/16"}}
}

func cluster() *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: meta("web"), Spec: v1alpha1.ClusterSpec{
		Type: v1alpha1.ClusterGKE, Version: "v1.35", Network: "main", Access: v1alpha1.Access{CIDRs: []string{"0.0.0.0/0"}},
		NodeGroups: map[string]v1alpha1.NodeGroupTemplate{"workers": {MaxReplicas: 10, Replicas: ptr.To(int32(3)), InstanceType: "u1.large"}},
	}}
}

func bucket() *v1alpha1.Bucket {
	return &v1alpha1.Bucket{ObjectMeta: meta("assets"), Spec: v1alpha1.BucketSpec{Cluster: "web"}}
}

const madeNetwork = `{"id": "projects/p/global/networks/main", "subnets": {"nodes": {"id": "projects/p/regions/r/subnetworks/nodes", "cidr": "10.0.0.0/16"}}}`

type world struct {
	*Provisioner
	t           *testing.T
	deployments *deployments
	states      *states
	belongings  []addons.Belongings // one after the other; it does not answer where there are none
}

func newWorld(t *testing.T, reports ...deployer.Report) *world {
	t.Helper()
	w := &world{t: t, deployments: &deployments{reports: reports}, states: &states{outputs: madeNetwork}}
	account := &v1alpha1.Account{ObjectMeta: meta("prod"), Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderGCP, Region: "europe-west1", GCP: &v1alpha1.GCPAccount{ProjectID: "shop-123456"},
	}}
	var err error
	w.Provisioner, err = New(Config{
		Deployments: w.deployments, States: w.states, Resources: resources{account}, Environment: w.environment, Addons: w, Poll: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs the steps of an operation, and returns what they put out.
func (w *world) run(operation v1alpha1.Operation, object task.Object, replicas map[string]int32) (map[string]string, error) {
	w.t.Helper()
	steps, err := w.steps(operation)
	if err != nil {
		w.t.Fatal(err)
	}
	made := map[string]string{}
	for _, step := range steps {
		scope := &task.Scope{Object: object, Attempt: 1, Log: slog.New(slog.DiscardHandler), Task: &v1alpha1.Task{
			ObjectMeta: metav1.ObjectMeta{UID: "task"}, Spec: v1alpha1.TaskSpec{Operation: operation, Replicas: replicas},
		}}
		if err := step.Run(w.t.Context(), scope); err != nil {
			return made, fmt.Errorf("%s: %w", step.Name, err)
		}
		for name, value := range scope.Outputs() {
			made[name] = value
		}
	}
	return made, nil
}

func raw(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestANetworkIsMade(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Pending}, deployer.Report{Phase: deployer.Planning}, deployer.Report{Phase: deployer.Applying, Plan: "+ a\n4 created\n"},
		deployer.Report{Phase: deployer.Applying}, deployer.Report{Phase: deployer.Succeeded, Outputs: raw(t, madeNetwork)})
	made, err := w.run(v1alpha1.OperationCreate, network(), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := w.deployments.asked[0]
	if !strings.HasPrefix(asked.Stack, "shop.network.main.") || asked.ID != "task" || asked.Operation != deployer.Apply || asked.InfraVersion != "v1.0.0" || asked.Account.Name != "prod" {
		t.Errorf("asked for %+v", asked)
	}
	if !strings.Contains(string(asked.Variables), `"project":"shop-123456"`) || strings.Contains(string(asked.Variables), "token") {
		t.Errorf("variables %s", asked.Variables)
	}
	var status v1alpha1.NetworkStatus
	if err := json.Unmarshal([]byte(made[provisioner.OutputNetwork]), &status); err != nil {
		t.Fatal(err)
	}
	if status.ID != "projects/p/global/networks/main" || len(status.Subnets) != 1 || status.Subnets[0].Name != "nodes" {
		t.Errorf("%+v", status)
	}
	if made[provisioner.OutputInfraVersion] != "v1.0.0" || made[provisioner.OutputInventory] != "Stack/"+asked.Stack || made[provisioner.OutputPlan] != "+ a\n4 created\n" {
		t.Errorf("%v", made)
	}
}

func TestAClusterHasTheTasksNodes(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded, Outputs: raw(t, `{"endpoint": "https://203.0.113.1", "version": "1.35.2-gke.100", "node_pools": {"workers": {"min": 5}}}`)})
	made, err := w.run(v1alpha1.OperationScale, cluster(), map[string]int32{"workers": 5})
	if err != nil {
		t.Fatal(err)
	}
	asked := w.deployments.asked[0]
	if !strings.Contains(string(asked.Variables), `"min":5,"max":5`) || !asked.OpenAPI {
		t.Errorf("asked for %+v %s", asked, asked.Variables)
	}
	if made[provisioner.OutputEndpoint] != "https://203.0.113.1" || made[provisioner.OutputVersion] != "v1.35.2" || made[provisioner.OutputNodes] != "5" {
		t.Errorf("%v", made)
	}
}

func TestABucketIsNamedAfterItsStack(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded, Outputs: raw(t, `{"id": "assets-1a2b3c", "endpoint": "https://storage/assets-1a2b3c"}`)})
	made, err := w.run(v1alpha1.OperationCreate, bucket(), nil)
	if err != nil || made[provisioner.OutputID] != "assets-1a2b3c" {
		t.Errorf("%v, %v", made, err)
	}
	if asked := w.deployments.asked[0]; !strings.Contains(string(asked.Variables), `"name":"assets-`) || asked.OpenAPI {
		t.Errorf("asked for %s", asked.Variables)
	}
}

func TestFailures(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Failed, Error: "no quota"})
	if _, err := w.run(v1alpha1.OperationCreate, network(), nil); err == nil || task.IsPermanent(err) || !strings.Contains(err.Error(), "no quota") {
		t.Errorf("%v", err)
	}
	w = newWorld(t, deployer.Report{Phase: deployer.Failed, Error: "it would lose data", Permanent: true})
	if _, err := w.run(v1alpha1.OperationUpdate, network(), nil); !task.IsPermanent(err) {
		t.Errorf("%v", err)
	}
	w = newWorld(t, deployer.Report{})
	wrong := network()
	wrong.Spec.CIDR = "172.16.0.0/16"
	if _, err := w.run(v1alpha1.OperationCreate, wrong, nil); !task.IsPermanent(err) || !strings.Contains(err.Error(), "spec.podCIDR") || len(w.deployments.asked) > 0 {
		t.Errorf("%v", err)
	}
}

func TestRemoval(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Applying}, deployer.Report{Phase: deployer.Succeeded})
	made, err := w.run(v1alpha1.OperationDelete, network(), nil)
	if err != nil || made[provisioner.OutputInventory] != "" || len(w.states.deleted) != 1 || len(w.deployments.forgotten) != 1 {
		t.Errorf("%v, %v, %v", made, err, w.states.deleted)
	}
	if asked := w.deployments.asked[0]; asked.Operation != deployer.Destroy {
		t.Errorf("asked for %+v", asked)
	}
	// What is wrong with it is no reason to keep it.
	w = newWorld(t, deployer.Report{Phase: deployer.Succeeded})
	wrong := network()
	wrong.Spec.CIDR = "172.16.0.0/16"
	if _, err := w.run(v1alpha1.OperationDelete, wrong, nil); err != nil || w.deployments.asked[0].Variables != nil {
		t.Errorf("%v", err)
	}
	// Nothing was ever made.
	w = newWorld(t)
	w.deployments.unknown = true
	if _, err := w.run(v1alpha1.OperationDelete, network(), nil); err != nil || len(w.deployments.asked) > 0 {
		t.Errorf("%v", err)
	}
}

func TestConsentIsReadFromTheResource(t *testing.T) {
	object := network()
	object.Annotations = map[string]string{v1alpha1.AnnotationConsent: "google_compute_network.this, google_compute_router.this[0]"}
	if got := consent(object); len(got) != 2 || got[1] != "google_compute_router.this[0]" {
		t.Errorf("%q", got)
	}
	if got := consent(network()); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestEveryProviderOfCloudsHasATranslation(t *testing.T) {
	clouds := Clouds()
	for _, provider := range []v1alpha1.Provider{v1alpha1.ProviderAWS, v1alpha1.ProviderGCP, v1alpha1.ProviderAzure} {
		translator, err := translatorOf(provider)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := translatorFor(translator.cloud()); err != nil || same != translator || clouds[translator.cloud()].Provider == "" {
			t.Errorf("%s: %v, %v", provider, same, err)
		}
	}
	if _, err := translatorOf(v1alpha1.ProviderSSH); err == nil {
		t.Error("SSH is a cloud")
	}
}
