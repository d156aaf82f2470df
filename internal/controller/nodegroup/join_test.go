package nodegroup_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
)

func TestMachinesAreMadeBeforeTheAPIAnswersAndJoinWhenItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{BootTime: 50 * time.Millisecond})
	g := w.group(2, func(template *v1alpha1.NodeGroupTemplate) {
		template.Roles = []string{"ingress-nginx"}
		template.Labels = map[string]string{"tier": "front", "example.k8s.io/zone": "a"}
	})
	w.eventually("the group waits", func() bool {
		return strings.Contains(w.condition(g, func() []metav1.Condition { return g.Status.Conditions }).Message, "endpoint")
	})
	if len(w.machines()) != 0 {
		t.Fatal("machines before there is an endpoint")
	}

	w.offerJoin()
	w.eventually("two machines run", func() bool {
		machines, err := w.driver.List(t.Context(), machine.Filter{Namespace: v1alpha1.InfrastructureNamespace(w.cluster)})
		return err == nil && len(machines) == 2 && machines[0].State == machine.StateRunning && machines[1].State == machine.StateRunning
	})
	if secrets := w.infrastructure(); len(secrets) != 3 { // how to join, and a token each
		t.Errorf("secrets: %v", secrets)
	}

	w.offerAPI()
	w.settled(g)
	if g.Status.Replicas != 2 || g.Status.ReadyReplicas != 2 || g.Status.UpdatedReplicas != 2 || g.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("status: %+v", g.Status)
	}
	for name, m := range w.machines() {
		if m.Status.Phase != v1alpha1.PhaseRunning || m.Status.NodeName != name || m.Status.Address == "" || m.Status.ID == "" {
			t.Errorf("status of %s: %+v", name, m.Status)
		}
		if !strings.HasPrefix(name, "dev-workers-") || m.Spec.Resources.CPU.String() != "1" || m.Spec.Resources.Memory.String() != "4Gi" {
			t.Errorf("%s: %+v", name, m.Spec)
		}
		node, err := w.tenant.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{
			"node-role.kubernetes.io/ingress-nginx": "", "tier": "front", "example.k8s.io/zone": "a",
			v1alpha1.LabelNodeGroup: "workers", corev1.LabelInstanceTypeStable: "u1.medium",
		} {
			if have, ok := node.Labels[key]; !ok || have != value {
				t.Errorf("label %s of %s is %q", key, name, have)
			}
		}
	}
	w.noTokens()
}

// noTokens asserts that no token of the world's machines is left.
func (w *world) noTokens() {
	w.t.Helper()
	machines := w.machines()
	for _, secret := range w.tokens(w.t.Context()) {
		if name := strings.TrimPrefix(string(secret.Data["description"]), "machine "); machines[name].Name != "" {
			w.t.Errorf("the token of %s is still good", name)
		}
	}
	for _, name := range w.infrastructure() {
		if strings.HasSuffix(name, "-token") {
			w.t.Errorf("%s is still kept", name)
		}
	}
}

// infrastructure is the names of the secrets in the cluster's own namespace.
func (w *world) infrastructure() []string {
	w.t.Helper()
	secrets, err := w.api.CoreV1().Secrets(v1alpha1.InfrastructureNamespace(w.cluster)).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range secrets.Items {
		names = append(names, secrets.Items[i].Name)
	}
	return names
}

func TestAGroupThatIsDeletedWhileItIsMadeLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{BootTime: time.Hour})
	w.offerJoin()
	g := w.group(3)
	w.eventually("three machines are being made", func() bool {
		machines, _ := w.driver.List(t.Context(), machine.Filter{})
		return len(machines) == 3
	})
	if err := w.kube.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	w.gone(g)
	if machines, err := w.driver.List(t.Context(), machine.Filter{}); err != nil || len(machines) != 0 || len(w.machines()) != 0 {
		t.Errorf("left: %+v, %v, %v", machines, w.names(), err)
	}
	w.noTokens()
}

func TestFakeClustersCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.create(&v1alpha1.Cluster{ObjectMeta: w.named("load"), Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake}})
	g := &v1alpha1.NodeGroup{ObjectMeta: w.named("load-workers"), Spec: v1alpha1.NodeGroupSpec{Cluster: "load", Group: "workers", Replicas: 3, Template: v1alpha1.NodeGroupTemplate{MaxReplicas: 5}}}
	w.create(g)
	before := g.ResourceVersion
	other := w.group(1) // by the time that this one was looked at, so was the other
	w.eventually("the other group is looked at", func() bool {
		return w.condition(other, func() []metav1.Condition { return other.Status.Conditions }).Reason != ""
	})
	if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil || g.ResourceVersion != before || len(w.machines()) != 0 {
		t.Errorf("the group was changed: %+v, %v", g, err)
	}
}
