package cloud

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform"
)

// plan plans a change of an object, and returns what came of it.
func (w *world) plan(object task.Object, change string, replicas map[string]int32) (*v1alpha1.Task, error) {
	w.t.Helper()
	steps, err := w.steps(v1alpha1.OperationPlan)
	if err != nil || len(steps) != 1 {
		w.t.Fatal(steps, err)
	}
	planned := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{UID: "task"}, Spec: v1alpha1.TaskSpec{Operation: v1alpha1.OperationPlan, Change: change, Replicas: replicas}}
	scope := &task.Scope{Object: object, Attempt: 1, Log: slog.New(slog.DiscardHandler), Task: planned}
	err = steps[0].Run(w.t.Context(), scope)
	planned.Status.Outputs = scope.Outputs()
	return planned, err
}

func TestAPlanTellsWhatAChangeWouldDo(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Planning}, deployer.Report{Phase: deployer.Succeeded, Plan: "-/+ google_container_cluster.this is replaced\n1 replaced\n", Preview: &deployer.Preview{
		Changes: []terraform.Change{{Address: "google_container_cluster.this", Type: "google_container_cluster", Effect: terraform.EffectReplace, Reason: "location cannot be changed in place", Fields: []string{`location "a" → "b"`}}},
		Refused: "plan refused: google_container_cluster.this: …", Consent: []string{"google_container_cluster.this"},
	}})
	planned, err := w.plan(cluster(), `{"version": "v1.36", "nodeGroups": {"workers": {"replicas": 7}}}`, map[string]int32{"workers": 3})
	if err != nil {
		t.Fatal(err)
	}
	asked := w.deployments.asked[0]
	if asked.Operation != deployer.Plan || !strings.Contains(string(asked.Variables), `"min":7`) || !strings.Contains(string(asked.Variables), "1.36") {
		t.Errorf("asked for %s %s", asked.Operation, asked.Variables)
	}
	result, found := planned.Result()
	if !found || len(result.Changes) != 1 || result.Changes[0].Effect != "replaced" || result.Changes[0].Fields[0] != `location "a" → "b"` ||
		result.Consent[0] != "google_container_cluster.this" || !strings.HasPrefix(result.Refused, "plan refused") {
		t.Errorf("%+v", result)
	}
	if !strings.HasPrefix(planned.Status.Outputs[provisioner.OutputPlan], "-/+") || planned.Status.Outputs[provisioner.OutputInfraVersion] != "" {
		t.Errorf("%v", planned.Status.Outputs)
	}
}

func TestAPlanWithoutAChangeIsOfWhatWasAskedFor(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded, Plan: "nothing to do\n", Preview: &deployer.Preview{}})
	planned, err := w.plan(cluster(), "", map[string]int32{"workers": 4})
	if result, found := planned.Result(); err != nil || !found || len(result.Changes) != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if asked := w.deployments.asked[0]; !strings.Contains(string(asked.Variables), `"min":4`) {
		t.Errorf("asked for %s", asked.Variables)
	}
}

func TestAPlanOfWhatCannotBeIsRefusedInOurWords(t *testing.T) {
	w := newWorld(t)
	for change, want := range map[string]string{
		`{"infraVersion": "v9.9.9"}`: "spec.infraVersion", `{"version": "v1.36.1.2"}`: "spec.version", `{"version": 3}`: "read the change", `[`: "read the change",
	} {
		if _, err := w.plan(cluster(), change, nil); !task.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if len(w.deployments.asked) > 0 {
		t.Errorf("asked for %v", w.deployments.asked)
	}
}

func TestAPlanIsNotTriedForever(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Failed, Error: "401"})
	steps, err := w.steps(v1alpha1.OperationPlan)
	if err != nil {
		t.Fatal(err)
	}
	for attempt := int32(1); attempt <= attempts; attempt++ {
		scope := &task.Scope{Object: network(), Attempt: attempt, Log: slog.New(slog.DiscardHandler), Task: &v1alpha1.Task{Spec: v1alpha1.TaskSpec{Operation: v1alpha1.OperationPlan}}}
		if err := steps[0].Run(t.Context(), scope); err == nil || task.IsPermanent(err) != (attempt == attempts) {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
}

func TestAPlanThatIsNotToldIsNotTakenForNone(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded, Plan: "nothing to do"})
	if _, err := w.plan(network(), "", nil); !task.IsPermanent(err) {
		t.Errorf("%v", err)
	}
}

func TestACancelledTaskWaitsForItsDeployer(t *testing.T) {
	w := newWorld(t)
	w.deployments.ending = 1
	steps, err := w.steps(v1alpha1.OperationCreate)
	if err != nil {
		t.Fatal(err)
	}
	scope := &task.Scope{Object: network(), Task: &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{UID: "task"}}, Log: slog.New(slog.DiscardHandler)}
	for _, step := range steps {
		if step.Cancel == nil {
			t.Fatalf("step %s cannot be cancelled", step.Name)
		}
	}
	if err := steps[1].Cancel(context.Background(), scope); err == nil || task.IsPermanent(err) || !strings.Contains(err.Error(), "waits for what the cloud") {
		t.Errorf("%v", err)
	}
	if err := steps[1].Cancel(context.Background(), scope); err != nil || len(w.deployments.cancelled) != 2 || w.deployments.cancelled[0] != "task" {
		t.Errorf("%v, %v", err, w.deployments.cancelled)
	}
}

func TestWhatIsAbandonedIsListed(t *testing.T) {
	w := newWorld(t)
	w.states.resources = map[string]string{"google_compute_router.this": "main-router", "google_compute_network.this": "projects/p/global/networks/main"}
	object := network()
	object.Annotations = map[string]string{v1alpha1.AnnotationForget: "main"}
	made, err := w.run(v1alpha1.OperationDelete, object, nil)
	if err != nil || made[provisioner.OutputRemains] != "google_compute_network.this projects/p/global/networks/main\ngoogle_compute_router.this main-router" {
		t.Errorf("%v, %v", made, err)
	}
	if len(w.deployments.asked) > 0 || len(w.states.deleted) > 0 || len(w.states.abandoned) != 1 || len(w.deployments.forgotten) != 1 {
		t.Errorf("asked %v, deleted %v, abandoned %v", w.deployments.asked, w.states.deleted, w.states.abandoned)
	}
	// Consent is by name.
	w = newWorld(t, deployer.Report{Phase: deployer.Succeeded})
	object.Annotations[v1alpha1.AnnotationForget] = "true"
	if made, err := w.run(v1alpha1.OperationDelete, object, nil); err != nil || made[provisioner.OutputRemains] != "" || len(w.states.abandoned) > 0 || len(w.deployments.asked) == 0 {
		t.Errorf("%v, %v", made, err)
	}
}

func TestNothingIsBegunWithCredentialsThatAreRevoked(t *testing.T) {
	w := newWorld(t, deployer.Report{Phase: deployer.Succeeded})
	account := &v1alpha1.Account{ObjectMeta: meta("prod"), Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderGCP, Region: "europe-west1", GCP: &v1alpha1.GCPAccount{ProjectID: "shop-123456"},
	}}
	account.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRevoked, Message: "they are revoked"}}
	w.Resources = resources{account}
	if _, err := w.run(v1alpha1.OperationUpdate, network(), nil); err == nil || task.IsPermanent(err) || !strings.Contains(err.Error(), "they are revoked") || len(w.deployments.asked) > 0 {
		t.Errorf("%v, asked %v", err, w.deployments.asked)
	}
	account.Status.Conditions[0].Reason = v1alpha1.ReasonUnknown
	if _, err := w.run(v1alpha1.OperationRepair, network(), nil); err != nil {
		t.Error(err)
	}
}
