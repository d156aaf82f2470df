package fake

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

var operations = []v1alpha1.Operation{
	v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationScale,
	v1alpha1.OperationUpgrade, v1alpha1.OperationRepair, v1alpha1.OperationDelete,
}

func newCluster(annotations map[string]string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "project-a", Annotations: annotations},
		Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake, Version: "v1.36",
			NodeGroups: map[string]v1alpha1.NodeGroupTemplate{"md0": {MaxReplicas: 5, Replicas: ptr.To(int32(3))}}},
	}
}

func newProvisioner() *Provisioner {
	return New(clock.RealClock{}, func(want string) (string, error) {
		if want != "v1.36" {
			return "", errors.New("no such version")
		}
		return "v1.36.3", nil
	}, 0)
}

// run runs the steps of an operation, each at the given attempt, until one fails.
func run(ctx context.Context, t *testing.T, operation v1alpha1.Operation, c *v1alpha1.Cluster, attempt int32) (map[string]string, error) {
	t.Helper()
	steps, err := newProvisioner().Steps(operation, c)
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for _, step := range steps {
		scope := &task.Scope{Task: &v1alpha1.Task{}, Object: c, Attempt: attempt}
		if err := step.Run(ctx, scope); err != nil {
			return outputs, err
		}
		maps.Copy(outputs, scope.Outputs())
	}
	return outputs, nil
}

func TestEveryOperationSucceeds(t *testing.T) {
	for _, operation := range operations {
		outputs, err := run(t.Context(), t, operation, newCluster(nil), 1)
		if err != nil {
			t.Errorf("%s: %v", operation, err)
		}
		want := operation != v1alpha1.OperationDelete
		if got := outputs["readyNodes"] == "3" && outputs["nodes"] == "3"; got != want {
			t.Errorf("%s: %v", operation, outputs)
		}
	}
	if _, err := newProvisioner().Steps("Polish", newCluster(nil)); !task.IsPermanent(err) {
		t.Error(err)
	}
}

func TestCreationTellsEndpointAndVersion(t *testing.T) {
	outputs, err := run(t.Context(), t, v1alpha1.OperationCreate, newCluster(nil), 1)
	if err != nil || outputs["endpoint"] != "https://dev.project-a.fake.invalid:6443" || outputs["version"] != "v1.36.3" {
		t.Error(outputs, err)
	}
	c := newCluster(nil)
	c.Spec.Version = "v1.2"
	if _, err := run(t.Context(), t, v1alpha1.OperationCreate, c, 1); !task.IsPermanent(err) {
		t.Error(err)
	}
}

func TestStepsFailAsOftenAsTheyAreTold(t *testing.T) {
	c := newCluster(map[string]string{AnnotationFailStep: "join-nodes", AnnotationFailTimes: "2"})
	for attempt, fails := range []bool{1: true, 2: true, 3: false} {
		if _, err := run(t.Context(), t, v1alpha1.OperationCreate, c, int32(attempt)); attempt > 0 && ((err != nil) != fails || task.IsPermanent(err)) {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
	c.Annotations[AnnotationFailPermanently] = "true"
	if _, err := run(t.Context(), t, v1alpha1.OperationCreate, c, 3); !task.IsPermanent(err) {
		t.Error(err)
	}
}

func TestStepsTakeAsLongAsTheyAreToldAndStopWhenTheyMust(t *testing.T) {
	c := newCluster(map[string]string{AnnotationStepSeconds: "0.1"})
	began := time.Now()
	if _, err := run(t.Context(), t, v1alpha1.OperationScale, c, 1); err != nil || time.Since(began) < 200*time.Millisecond {
		t.Error(time.Since(began), err)
	}
	c.Annotations[AnnotationStepSeconds] = "600"
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := run(ctx, t, v1alpha1.OperationScale, c, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	c.Annotations[AnnotationStepSeconds] = "soon"
	if _, err := run(t.Context(), t, v1alpha1.OperationScale, c, 1); !task.IsPermanent(err) {
		t.Error(err)
	}
}
