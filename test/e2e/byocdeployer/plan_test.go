//go:build e2e

package byocdeployer

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

// plan plans a change.
func (l *lab) plan(object task.Object, change string) (v1alpha1.PlanResult, string) {
	l.t.Helper()
	t := l.task(v1alpha1.OperationPlan)
	t.Spec.Change = change
	t.Status.Outputs = l.do(t, object)
	result, found := t.Result()
	if !found {
		l.t.Fatalf("no plan in %v", t.Status.Outputs)
	}
	return result, t.Status.Outputs[provisioner.OutputPlan]
}

// state is the record of the stack that a task has made.
func (l *lab) state(made map[string]string) *state.Record {
	l.t.Helper()
	record, err := l.states.Describe(l.t.Context(), strings.TrimPrefix(made[provisioner.OutputInventory], "Stack/"))
	must(l.t, err)
	return record
}

// TestPlans shows that a plan tells what would be done and changes nothing, that it finds what somebody else has changed, and
// that a repair puts that right.
func TestPlans(t *testing.T) {
	l := newLab(t)
	made := l.run(v1alpha1.OperationCreate, network())
	before, created := l.state(made), l.stub.Created()
	if result, text := l.plan(network(), ""); len(result.Changes) > 0 || strings.TrimSpace(text) != "nothing to do" {
		t.Errorf("planned what is there as\n%s", text)
	}
	if result, text := l.plan(network(), `{"gcp": {"flowLogs": false, "podCIDR": "172.16.0.0/14", "serviceCIDR": "172.20.0.0/20"}}`); len(result.Changes) != 1 || result.Changes[0].Effect != "changed" || result.Refused != "" {
		t.Errorf("without flow logs: %+v\n%s", result, text)
	}
	result, text := l.plan(network(), `{"cidr": "10.9.0.0/16"}`)
	if !strings.Contains(text, "is replaced") || !strings.Contains(text, "cannot be changed in place") || !strings.Contains(result.Refused, "a network is lost") ||
		len(result.Consent) != 1 || result.Consent[0] != `google_compute_subnetwork.this["nodes"]` {
		t.Errorf("with another range: %+v\n%s", result, text)
	}
	if after := l.state(made); len(after.Versions) != len(before.Versions) || after.Lock != nil {
		t.Errorf("plans have changed the state: %+v, before %+v", after, before)
	}
	l.stub.Change("subnetworks", func(subnet map[string]any) { subnet["privateIpGoogleAccess"] = false })
	if result, text = l.plan(network(), ""); len(result.Changes) != 1 || result.Changes[0].Address != `google_compute_subnetwork.this["nodes"]` || result.Refused != "" {
		t.Errorf("drift: %+v\n%s", result, text)
	}
	l.run(v1alpha1.OperationRepair, network())
	if result, text = l.plan(network(), ""); len(result.Changes) > 0 {
		t.Errorf("after its repair:\n%s", text)
	}
	if now := l.stub.Created(); now["networks"] != created["networks"] || now["subnetworks"] != created["subnetworks"] {
		t.Errorf("made %v before, %v after", created, now)
	}
}

// TestCancelled shows that a task that is cancelled in the middle interrupts its deployer, which keeps the state and gives its
// lock back, and that the next operation finishes what was begun.
func TestCancelled(t *testing.T) {
	l := newLab(t)
	object, begun := network(), l.task(v1alpha1.OperationCreate)
	steps, err := cloud.Stacks{Provisioner: l.provisioner}.Steps(begun, object)
	must(t, err)
	scope := func() *task.Scope {
		return &task.Scope{Object: object, Attempt: 1, Task: begun, Log: slog.New(slog.DiscardHandler)}
	}
	planned := scope()
	for planned.Output(provisioner.OutputPlan) == "" {
		if err := steps[0].Run(t.Context(), planned); err != nil {
			t.Log(err) // it waits
		}
	}
	for deadline := time.Now().Add(time.Minute); l.stub.Created()["networks"] == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is made")
		}
	}
	asked := time.Now()
	for err = steps[1].Cancel(t.Context(), scope()); err != nil; err = steps[1].Cancel(t.Context(), scope()) {
		if time.Since(asked) > time.Minute {
			t.Fatalf("it does not end: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	record := l.state(planned.Outputs())
	if record.Lock != nil || len(record.Versions) == 0 || record.Versions[len(record.Versions)-1].Resources == 0 {
		t.Errorf("after %s the state is %+v", time.Since(asked), record)
	}
	l.mu.Lock()
	if len(l.running) > 0 {
		t.Error("the deployer goes on")
	}
	l.mu.Unlock()
	object.Annotations = map[string]string{v1alpha1.AnnotationConsent: "*"} // what was cut short is made anew
	l.run(v1alpha1.OperationRepair, object)
	if have := l.stub.Inventory(); have["networks"] != 1 || have["subnetworks"] != 1 || have["routers"] != 1 {
		t.Errorf("there is %v", have)
	}
	l.run(v1alpha1.OperationDelete, object)
	if left := l.stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

// TestForgotten shows that what credentials that are worth nothing do not reach can be deleted from the record, with a list of
// what is left.
func TestForgotten(t *testing.T) {
	l := newLab(t)
	object := network()
	made := l.run(v1alpha1.OperationCreate, object)
	before := l.stub.Inventory()
	l.stub.Revoke(true)
	object.Annotations = map[string]string{v1alpha1.AnnotationForget: object.Name}
	remains := l.run(v1alpha1.OperationDelete, object)[provisioner.OutputRemains]
	for _, want := range []string{"google_compute_network.this projects/stub-project/global/networks/main-", "google_compute_subnetwork.this", "google_compute_router.this"} {
		if !strings.Contains(remains, want) {
			t.Errorf("%s is not in\n%s", want, remains)
		}
	}
	if after := l.stub.Inventory(); after["networks"] != before["networks"] {
		t.Errorf("there was %v, and is %v", before, after)
	}
	if _, err := l.states.Describe(t.Context(), strings.TrimPrefix(made[provisioner.OutputInventory], "Stack/")); err == nil {
		t.Error("there still is a state")
	}
}
