package base

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Only what was broken when somebody asked for it is given up, and only by force.
func TestAForcedRepairReplacesBrokenWorkers(t *testing.T) {
	asked := metav1.NewTime(time.Now())
	made := func(name string, role v1alpha1.MachineRole, after time.Duration, ready metav1.ConditionStatus) runtime.Object {
		m := &v1alpha1.Machine{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "project-a", Name: name, Labels: map[string]string{v1alpha1.LabelCluster: "dev"},
				CreationTimestamp: metav1.NewTime(asked.Add(after)),
			},
			Spec: v1alpha1.MachineSpec{Role: role},
		}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
		return m
	}
	machines := []runtime.Object{
		made("broken", v1alpha1.MachineWorker, -time.Hour, metav1.ConditionFalse),
		made("well", v1alpha1.MachineWorker, -time.Hour, metav1.ConditionTrue),
		made("unknown", v1alpha1.MachineWorker, -time.Hour, metav1.ConditionUnknown),
		made("new", v1alpha1.MachineWorker, time.Minute, metav1.ConditionFalse),
		made("plane", v1alpha1.MachineControlPlane, -time.Hour, metav1.ConditionFalse),
	}
	for _, test := range []struct {
		operation v1alpha1.Operation
		force     bool
		left      []string
	}{
		{v1alpha1.OperationRepair, true, []string{"new", "plane", "unknown", "well"}},
		{v1alpha1.OperationRepair, false, []string{"broken", "new", "plane", "unknown", "well"}},
		{v1alpha1.OperationUpdate, true, []string{"broken", "new", "plane", "unknown", "well"}},
	} {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := fake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{
			v1alpha1.GroupVersion.WithResource(ResourceMachines): "MachineList",
		}, machines...)
		b := &Build{
			Config: &Config{Dynamic: client}, Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: "dev"}},
			Scope: &task.Scope{Task: &v1alpha1.Task{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: asked}, Spec: v1alpha1.TaskSpec{Operation: test.operation, Force: test.force},
			}},
		}
		if err := b.replaceBroken(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := b.OfCluster(ResourceMachines).List(t.Context(), b.ClusterSelector())
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, item := range list.Items {
			left = append(left, item.GetName())
		}
		slices.Sort(left)
		if !slices.Equal(left, test.left) {
			t.Errorf("%s, force %t: %v are left, want %v", test.operation, test.force, left, test.left)
		}
	}
}
