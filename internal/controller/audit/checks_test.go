package audit

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/nodegroup"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message},
		{Type: machine.ConditionJoined, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady},
	}
}

func TestWorkers(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		role       v1alpha1.MachineRole
		check      string // nothing where it is well
	}{
		"ready":                {ready(metav1.ConditionTrue, v1alpha1.ReasonReady, ""), v1alpha1.MachineWorker, ""},
		"being made":           {ready(metav1.ConditionFalse, v1alpha1.ReasonProvisioning, "")[:1], v1alpha1.MachineWorker, ""},
		"nobody can tell":      {ready(metav1.ConditionUnknown, v1alpha1.ReasonWaiting, ""), v1alpha1.MachineWorker, ""},
		"not ready":            {ready(metav1.ConditionFalse, machine.ReasonNodeNotReady, "kubelet stopped"), v1alpha1.MachineWorker, CheckNodes},
		"lost":                 {ready(metav1.ConditionFalse, machine.ReasonLost, "it is gone"), v1alpha1.MachineWorker, CheckMachines},
		"of the control plane": {ready(metav1.ConditionFalse, machine.ReasonLost, "it is gone"), v1alpha1.MachineControlPlane, ""},
	} {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.MachineSpec{Role: test.role}}
		m.Status.Conditions = test.conditions
		finding, is := worker(m)
		if is != (test.check != "") || finding.Check != test.check || is && !finding.Repairable {
			t.Errorf("%s: %+v", name, finding)
		}
	}
}

func TestGroups(t *testing.T) {
	stalled := metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Message: "there is no room"}
	for name, test := range map[string]struct {
		status     v1alpha1.NodeGroupStatus
		known      bool
		says       string
		repairable bool
		risk       bool
	}{
		"all there":           {v1alpha1.NodeGroupStatus{Replicas: 3, ReadyReplicas: 3}, false, "", false, false},
		"one is missing":      {v1alpha1.NodeGroupStatus{Replicas: 2, ReadyReplicas: 2}, false, "2 of 3", true, false},
		"one is known":        {v1alpha1.NodeGroupStatus{Replicas: 3, ReadyReplicas: 2}, true, "", false, false},
		"one too many":        {v1alpha1.NodeGroupStatus{Replicas: 4, ReadyReplicas: 4}, false, "4 machines instead of 3", true, false},
		"there is no room":    {v1alpha1.NodeGroupStatus{Replicas: 3, ReadyReplicas: 2, Conditions: []metav1.Condition{stalled}}, false, "no room", false, false},
		"too many are broken": {v1alpha1.NodeGroupStatus{Replicas: 3, Conditions: ready(metav1.ConditionFalse, nodegroup.ReasonHeldBack, "2 machines are broken and wait")[:1]}, true, "broken and wait", true, true},
	} {
		g := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Group: "workers", Replicas: 3}, Status: test.status}
		found := group(g, map[string]bool{"workers": test.known})
		if test.says == "" {
			if len(found) != 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 || !strings.Contains(found[0].String(), test.says) || found[0].Repairable != test.repairable || (found[0].Risk != "") != test.risk {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestInfrastructureTellsWhatSomebodyChanged(t *testing.T) {
	deployment := func(name string, generation int64, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-dev", Name: name, Generation: generation, ResourceVersion: version, Labels: map[string]string{
				base.LabelManagedBy: "plasmacloud", v1alpha1.LabelCluster: "dev", v1alpha1.LabelProject: "shop",
			}},
		}
	}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, deployment("control-plane", 1, "1"))
	heard := make(chan types.NamespacedName, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Infrastructure(client)(ctx, func(key types.NamespacedName) { heard <- key }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	quiet := func(what string) {
		t.Helper()
		select {
		case key := <-heard:
			t.Fatalf("%s: %s is told of", what, key)
		case <-time.After(500 * time.Millisecond):
		}
	}
	quiet("what was there before")
	deployments, ok := client.Resource(watched()[0]).Namespace("cluster-dev").(fake.MetadataClient)
	if !ok {
		t.Fatal("no fake")
	}
	if _, err := deployments.UpdateFake(deployment("control-plane", 1, "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	quiet("a change of the status")
	if _, err := deployments.UpdateFake(deployment("control-plane", 2, "3"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"edited", "deleted"} {
		select {
		case key := <-heard:
			if key != (types.NamespacedName{Namespace: "project-shop", Name: "dev"}) {
				t.Errorf("%s: %s", change, key)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("nobody tells that it was %s", change)
		}
		if change == "edited" {
			if err := deployments.Delete(t.Context(), "control-plane", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
