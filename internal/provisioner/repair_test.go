package provisioner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// audited is a provisioner whose audits find what they are told.
type audited struct {
	nothing
	findings []v1alpha1.Finding
	err      error
}

func (a audited) Audit(context.Context, *v1alpha1.Cluster, bool) ([]v1alpha1.Finding, error) {
	return a.findings, a.err
}

func TestARepairLooksFirstAndIsRefusedWhereItCouldLoseSomething(t *testing.T) {
	risky := []v1alpha1.Finding{{Check: "etcd", Message: "two of three members are lost", Risk: "the third may not have all data", Repairable: true}}
	hopeless := []v1alpha1.Finding{{Message: "two of three members are lost", Risk: "the third may not have all data", Remedy: "no cloud k8s repair, nor --force, helps"}}
	for name, test := range map[string]struct {
		auditor audited
		force   bool
		refused bool
	}{
		"nothing found":        {audited{}, false, false},
		"harmless":             {audited{findings: []v1alpha1.Finding{{Message: "the kubelet is stopped", Repairable: true}}}, false, false},
		"cannot look":          {audited{err: errors.New("nobody answers")}, false, false},
		"could lose":           {audited{findings: risky}, false, true},
		"would lose, by force": {audited{findings: hopeless}, true, true},
		"could lose, and may":  {audited{findings: risky}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := Set{v1alpha1.ClusterFake: test.auditor}.Steps(taskOf(v1alpha1.OperationRepair), clusterOf(v1alpha1.ClusterFake))
			if err != nil || len(steps) != 2 || steps[0].Name != StepAssess {
				t.Fatal(steps, err)
			}
			request := taskOf(v1alpha1.OperationRepair)
			request.Spec.Force = test.force
			err = steps[0].Run(t.Context(), &task.Scope{Task: request, Object: clusterOf(v1alpha1.ClusterFake), Log: slog.New(slog.DiscardHandler)})
			if !test.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrRefused) || !task.IsPermanent(err) {
				t.Fatalf("%v is not refused for good", err)
			}
			for _, part := range []string{"two of three members", "may not have all data", "cloud k8s repair", "--force"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	steps, err := Set{v1alpha1.ClusterFake: audited{}}.Steps(taskOf(v1alpha1.OperationScale), clusterOf(v1alpha1.ClusterFake))
	if err != nil || len(steps) != 1 {
		t.Error("another operation looks first", steps, err)
	}
}
