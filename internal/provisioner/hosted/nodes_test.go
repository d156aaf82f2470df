package hosted

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

func TestNodesAreWaitedFor(t *testing.T) {
	w := newWorld(t, func(spec map[string]any) {
		spec["controlPlane"] = map[string]any{"replicas": int64(1)}
		spec["nodeGroups"] = map[string]any{"workers": map[string]any{"replicas": int64(2)}}
	})
	w.run(v1alpha1.OperationCreate, created...)
	w.setDeploymentReady()
	group := w.makeNodeGroup("workers")
	returned := make(chan error, 1)
	go func() { returned <- w.try(t.Context(), v1alpha1.OperationScale, "nodes") }()
	select {
	case err := <-returned:
		t.Fatalf("there are no nodes yet: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	group, err := w.build("").OfCluster(base.ResourceNodeGroups).Get(t.Context(), group.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if version, _, _ := unstructured.NestedString(group.Object, "spec", "version"); version == "" {
		t.Error("the group is not told its version")
	}
	status := v1alpha1.NodeGroupStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, ObservedGeneration: group.GetGeneration()}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		t.Fatal(err)
	}
	group.Object["status"] = content
	if _, err := w.build("").OfCluster(base.ResourceNodeGroups).UpdateStatus(t.Context(), group, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-returned:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nobody noticed that the nodes are ready")
	}
	if w.outputs[provisioner.OutputNodes] != "2" || w.outputs[provisioner.OutputReadyNodes] != "2" {
		t.Errorf("%v", w.outputs)
	}
}

// setDeploymentReady does what the Deployment's controller and the kubelet would.
func (w *world) setDeploymentReady() {
	w.t.Helper()
	deployment := w.deployment()
	n := *deployment.Spec.Replicas
	deployment.Status.ObservedGeneration = deployment.Generation
	deployment.Status.Replicas, deployment.Status.UpdatedReplicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = n, n, n, n
	if _, err := w.client.AppsV1().Deployments(w.namespace).UpdateStatus(w.t.Context(), deployment, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestAStalledGroupIsToldOf(t *testing.T) {
	w := newWorld(t, func(spec map[string]any) {
		spec["nodeGroups"] = map[string]any{"workers": map[string]any{"replicas": int64(2)}}
	})
	groups := []v1alpha1.NodeGroup{{
		ObjectMeta: metav1.ObjectMeta{Generation: 1},
		Spec:       v1alpha1.NodeGroupSpec{Group: "workers", Replicas: 2},
		Status: v1alpha1.NodeGroupStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Message: "no host has room for u1.8xlarge"},
		}},
	}}
	_, _, err := w.build("").Settled(groups)
	mentions(t, err, "workers", "no host has room")
	if settled, waitsFor, err := w.build("").Settled(nil); settled || err != nil || waitsFor == "" {
		t.Errorf("%v %q %v", settled, waitsFor, err)
	}
}

// The last replicas of a control plane come after the first answers.
func TestReplicasComeLater(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	if got := *w.deployment().Spec.Replicas; got != 1 {
		t.Fatalf("it begins with %d", got)
	}
	w.setDeploymentReady()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := w.try(ctx, v1alpha1.OperationCreate, "nodes"); err == nil {
		t.Error("the second replica is not ready")
	}
	if got := *w.deployment().Spec.Replicas; got != 2 {
		t.Errorf("it has %d replicas", got)
	}
	w.setDeploymentReady()
	w.run(v1alpha1.OperationCreate, "nodes")
	// A later change does not take them away for a while.
	w.cluster.Spec.Host = "dev.example.com"
	w.run(v1alpha1.OperationUpdate, created...)
	if got := *w.deployment().Spec.Replicas; got != 2 {
		t.Errorf("after a change it has %d replicas", got)
	}
}

func TestTroubleIsToldClearly(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: containerAPIServer, Image: "registry.example/kube-apiserver:" + version,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}
	}
	unscheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: Insufficient memory."}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		words  []string
	}{
		"image":    {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "Back-off")}}, []string{"registry.example/kube-apiserver:" + version, "cloud up"}},
		"crash":    {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff", "back-off")}}, []string{containerAPIServer, "again and again"}},
		"config":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError", "secret not found")}}, []string{"secret not found"}},
		"disk":     {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}, []string{"Evicted", "ephemeral-storage"}},
		"schedule": {corev1.PodStatus{Conditions: []corev1.PodCondition{unscheduled}}, []string{"Insufficient memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "plane-" + name, Namespace: w.namespace, Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentControlPlane}},
				Spec:       w.deployment().Spec.Template.Spec,
			}
			made, err := w.client.CoreV1().Pods(w.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made.Status = c.status
			if _, err := w.client.CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			b := w.build("api")
			_, err = b.look(t.Context(), true)
			mentions(t, err, c.words...)
			now := int64(0)
			if err := w.client.CoreV1().Pods(w.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if doing, err := w.build("api").look(t.Context(), true); err != nil || doing == "" {
		t.Errorf("there is no trouble: %q, %v", doing, err)
	}
}
