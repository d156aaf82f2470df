package nodegroup_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
)

// pod puts a pod on a node. It goes at once when it is deleted, as there is no kubelet to wait for.
func (w *world) pod(namespace, name, node string, owner ...metav1.OwnerReference) {
	w.t.Helper()
	pods := w.tenant.CoreV1().Pods(namespace)
	pod, err := pods.Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: owner},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: ptr.To(int64(0)), Containers: []corev1.Container{{Name: "main", Image: "example.com/web"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// budget allows so many disruptions, as the disruption controller would say.
func (w *world) budget(namespace string, allowed int32) {
	w.t.Helper()
	budgets := w.tenant.PolicyV1().PodDisruptionBudgets(namespace)
	budget, err := budgets.Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		budget, err = budgets.Create(w.t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
	}
	if _, err := budgets.UpdateStatus(w.t.Context(), budget, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pods(namespace string) int {
	w.t.Helper()
	list, err := w.tenant.CoreV1().Pods(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list.Items)
}

// draining is a world with a group of one whose pod nobody may evict, which is scaled to nothing.
func draining(t *testing.T, options ...option) (w *world, g *v1alpha1.NodeGroup, namespace, name string) {
	t.Helper()
	w = up(t, fake.Config{}, options...)
	g = w.group(1)
	w.settled(g)
	namespace, name = tenants.Namespace(t), w.names()[0]
	w.pod(namespace, "web", name)
	w.pod(namespace, "daemon", name, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "1", Controller: ptr.To(true)})
	w.budget(namespace, 0)
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Replicas = 0 })
	w.eventually("the machine is drained", func() bool {
		m := w.machines()[name]
		ready := w.condition(&m, func() []metav1.Condition { return m.Status.Conditions })
		return ready.Reason == machinecontroller.ReasonDraining && strings.Contains(ready.Message, namespace+"/web")
	})
	return w, g, namespace, name
}

func TestDrainingRespectsBudgets(t *testing.T) {
	t.Parallel()
	w, g, namespace, name := draining(t)
	node, err := w.tenant.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !node.Spec.Unschedulable {
		t.Errorf("the node takes new pods: %v", err)
	}
	time.Sleep(5 * time.Second)
	if w.pods(namespace) != 2 || len(w.machines()) != 1 {
		t.Fatalf("%d pods, %v: the budget was not respected", w.pods(namespace), w.names())
	}
	if _, err := w.driver.Get(t.Context(), w.key(name)); err != nil {
		t.Fatal(err)
	}
	w.budget(namespace, 1)
	w.settled(g)
	if left := w.pods(namespace); left != 1 { // the daemon's
		t.Errorf("%d pods", left)
	}
	if len(w.machines()) != 0 || len(w.nodes([]string{name})) != 0 {
		t.Errorf("left: %v, %v", w.names(), w.nodes([]string{name}))
	}
}

func TestDrainingTakesNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	w, g, namespace, _ := draining(t, func(w *world) { w.drain = 4 * time.Second })
	w.settled(g)
	if w.pods(namespace) != 2 || len(w.machines()) != 0 {
		t.Errorf("%d pods, machines %v", w.pods(namespace), w.names())
	}
}

func TestAClusterThatIsDeletedIsNotDrained(t *testing.T) {
	t.Parallel()
	w, g, namespace, _ := draining(t)
	if err := w.kube.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	// The finalizer is what its own controller does.
	if err := w.kube.Patch(t.Context(), w.cluster, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["plasmacloud.io/cleanup"]}}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.kube.Delete(t.Context(), w.cluster); err != nil {
		t.Fatal(err)
	}
	w.gone(g)
	if machines, err := w.driver.List(t.Context(), machine.Filter{}); err != nil || len(machines) != 0 || w.pods(namespace) != 2 {
		t.Errorf("%v, %d pods, %v", machines, w.pods(namespace), err)
	}
}

func TestALostMachineIsNotDrained(t *testing.T) {
	t.Parallel()
	w, g, _, name := draining(t)
	if err := w.driver.Delete(t.Context(), w.key(name)); err != nil {
		t.Fatal(err)
	}
	w.settled(g)
}

func TestNoRoomIsToldAndUsedWhenThereIs(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{Capacity: 2})
	some := resource.MustParse("1Gi")
	taken := machine.Spec{Key: w.key("somebody-else"), CPU: some, Memory: some, Disk: some}
	if _, err := w.driver.Create(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	g := w.group(2)
	w.eventually("the group tells", func() bool {
		ready := w.condition(g, func() []metav1.Condition { return g.Status.Conditions })
		return strings.Contains(ready.Message, "no capacity") && strings.Contains(ready.Message, "smaller instance type") && g.Status.ReadyReplicas == 1 &&
			meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionStalled)
	})
	w.eventually("an event tells", func() bool {
		events, err := w.api.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			if events.Items[i].Reason == machinecontroller.ReasonNoCapacity && events.Items[i].Regarding.Kind == "Machine" {
				return true
			}
		}
		return false
	})
	if err := w.driver.Delete(t.Context(), taken.Key); err != nil {
		t.Fatal(err)
	}
	w.settled(g)
	if meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionStalled) {
		t.Error("it is stalled though it is ready")
	}
}

func TestADescriptionThatCannotBeMetIsToldAndMended(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{})
	g := w.group(1, func(template *v1alpha1.NodeGroupTemplate) { template.InstanceType = "u1.gigantic" })
	w.eventually("the group tells", func() bool {
		ready := w.condition(g, func() []metav1.Condition { return g.Status.Conditions })
		return g.Status.Phase == v1alpha1.PhaseFailed && strings.Contains(ready.Message, `no instance type "u1.gigantic"`)
	})
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Template.InstanceType = "u1.large" })
	w.settled(g)
}

func TestAMachineThatIsLostBeforeItJoinsIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{BootTime: 20 * time.Millisecond})
	w.offerJoin()
	g := w.group(1)
	w.eventually("it is made", func() bool { return len(w.machines()) == 1 && w.machines()[w.names()[0]].Status.ID != "" })
	lost := w.names()[0]
	if err := w.driver.Delete(t.Context(), w.key(lost)); err != nil {
		t.Fatal(err)
	}
	w.offerAPI()
	w.eventually("it is replaced", func() bool { return w.machines()[lost].Name == "" && len(w.machines()) == 1 })
	w.settled(g)
}
