package provisioner

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

type nothing struct{}

func (nothing) Steps(operation v1alpha1.Operation, _ *v1alpha1.Cluster) ([]task.Step, error) {
	return []task.Step{{Name: string(operation)}}, nil
}

func taskOf(operation v1alpha1.Operation) *v1alpha1.Task {
	return &v1alpha1.Task{Spec: v1alpha1.TaskSpec{Operation: operation, Resource: v1alpha1.ResourceReference{Kind: "Cluster", Name: "dev"}}}
}

func clusterOf(clusterType v1alpha1.ClusterType) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Type: clusterType}}
}

func TestStepsAreThoseOfTheClustersType(t *testing.T) {
	set := Set{v1alpha1.ClusterFake: nothing{}}
	steps, err := set.Steps(taskOf(v1alpha1.OperationScale), clusterOf(v1alpha1.ClusterFake))
	if err != nil || len(steps) != 1 || steps[0].Name != "Scale" {
		t.Error(steps, err)
	}
}

func TestAMissingTypeIsAPermanentErrorThatSaysSo(t *testing.T) {
	set := Set{v1alpha1.ClusterFake: nothing{}, v1alpha1.ClusterHosted: nothing{}}
	for operation, want := range map[v1alpha1.Operation]string{
		v1alpha1.OperationCreate:  "clusters of type EKS cannot be made by this version: it has types Fake, Hosted",
		v1alpha1.OperationUpdate:  "clusters of type EKS cannot be changed by",
		v1alpha1.OperationScale:   "clusters of type EKS cannot be scaled by",
		v1alpha1.OperationUpgrade: "clusters of type EKS cannot be upgraded by",
		v1alpha1.OperationRepair:  "clusters of type EKS cannot be repaired by",
	} {
		_, err := set.Steps(taskOf(operation), clusterOf(v1alpha1.ClusterEKS))
		var missing *UnsupportedError
		if err == nil || !strings.Contains(err.Error(), want) || !task.IsPermanent(err) || !errors.As(err, &missing) {
			t.Errorf("%s: %v", operation, err)
		}
	}
	if set.Check(v1alpha1.ClusterHosted, v1alpha1.OperationCreate) != nil {
		t.Error("a type that is there is missing")
	}
}

func TestWhatNobodyMadeCanBeDeleted(t *testing.T) {
	c := clusterOf(v1alpha1.ClusterEKS)
	if steps, err := (Set{}).Steps(taskOf(v1alpha1.OperationDelete), c); err != nil || len(steps) != 0 {
		t.Error(steps, err)
	}
	c.Status.ObservedGeneration = 1
	if _, err := (Set{}).Steps(taskOf(v1alpha1.OperationDelete), c); err == nil || !strings.Contains(err.Error(), "cannot be deleted by this version: it has types none") {
		t.Error(err)
	}
	c.Annotations = map[string]string{v1alpha1.AnnotationForce: "true"}
	if _, err := (Set{}).Steps(taskOf(v1alpha1.OperationDelete), c); err != nil {
		t.Error(err)
	}
}

func TestOtherKindsHaveNoOperations(t *testing.T) {
	if _, err := (Set{}).Steps(taskOf(v1alpha1.OperationCreate), &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); !task.IsPermanent(err) {
		t.Error(err)
	}
}

func TestNodesAreThoseAskedFor(t *testing.T) {
	c := clusterOf(v1alpha1.ClusterFake)
	c.Spec.NodeGroups = map[string]v1alpha1.NodeGroupTemplate{"a": {MinReplicas: 2}, "b": {MinReplicas: 1, Replicas: ptr.To(int32(5))}}
	if n := Nodes(&v1alpha1.Task{}, c); n != 7 {
		t.Error(n)
	}
	scaled := &v1alpha1.Task{Spec: v1alpha1.TaskSpec{Replicas: map[string]int32{"a": 4, "gone": 9}}}
	if n := Nodes(scaled, c); n != 9 {
		t.Errorf("%d nodes, want the 4 of the task and 5", n)
	}
}
