package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// created are the steps of a creation that need no API of the cluster's own.
var created = []string{"prepare", "endpoint", "control-plane-machines", "prerequisites", "init", "join-control-plane"}

func (w *world) members() []balancer.Server {
	w.t.Helper()
	configMap, err := w.client.CoreV1().ConfigMaps(w.home).Get(w.t.Context(), balancer.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	members, err := balancer.Read(configMap)
	if err != nil {
		w.t.Fatal(err)
	}
	return members
}

func names(machines []v1alpha1.Machine) []string {
	var names []string
	for i := range machines {
		names = append(names, machines[i].Name)
	}
	return names
}

// Three machines are made at once and prepared; one begins, the others join through it, and all are behind the balancer.
func TestAControlPlaneIsMade(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	machines := names(w.machines())
	if len(machines) != 3 {
		t.Fatalf("machines %v", machines)
	}
	first := machines[0]
	want := []string{"init " + first}
	for i, name := range machines {
		want = append(want, "prepare "+name)
		if i > 0 {
			want = append(want, fmt.Sprintf("join %s by %s", name, first))
		}
	}
	slices.Sort(want)
	if done := w.hosts.forget(); !slices.Equal(done, want) {
		t.Errorf("done: %v\nwant: %v", done, want)
	}
	if members := w.members(); len(members) != 3 || !strings.HasSuffix(members[0].Address, ":6443") {
		t.Errorf("members %v", members)
	}
	w.looksRight()
	before := w.members()
	w.run(v1alpha1.OperationUpdate, created...) // nothing is to be done, and nothing is
	if done := w.hosts.forget(); len(done) != 3 || !strings.HasPrefix(done[0], "prepare ") {
		t.Errorf("done again: %v", done)
	}
	if after := w.members(); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// looksRight looks at what a creation leaves on the management cluster.
func (w *world) looksRight() {
	w.t.Helper()
	secrets := w.client.CoreV1().Secrets(w.home)
	service, err := w.client.CoreV1().Services(w.home).Get(w.t.Context(), base.ServiceName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	port := service.Spec.Ports[0]
	if len(service.Spec.Ports) != 1 || port.NodePort == 0 || port.Port != port.NodePort || port.TargetPort.IntVal != port.NodePort {
		w.t.Errorf("ports %+v", service.Spec.Ports)
	}
	endpoint := fmt.Sprintf("https://192.0.2.1:%d", port.NodePort)
	joining, err := secrets.Get(w.t.Context(), bootstrap.JoinSecretName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	join, err := bootstrap.ParseJoin(joining.Data[bootstrap.JoinSecretKey])
	if err != nil || join.Server != endpoint || join.KubernetesVersion != version || string(join.CA) != string(w.hosts.keys.CA) {
		w.t.Errorf("%+v, %v", join, err)
	}
	kubeconfigs, err := secrets.Get(w.t.Context(), base.KubeconfigSecret, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfigs.Data[v1alpha1.KubeconfigAdmin])
	if err != nil || config.Host != endpoint {
		w.t.Errorf("%v, %v", config, err)
	}
	keys, err := secrets.Get(w.t.Context(), sshkey.SecretName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := sshkey.Current(keys.Data); err != nil {
		w.t.Error(err)
	}
	deployment, err := w.client.AppsV1().Deployments(w.home).Get(w.t.Context(), balancer.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if want := min(2, w.cluster.Spec.ControlPlane.Replicas); *deployment.Spec.Replicas != want {
		w.t.Errorf("%d balancers", *deployment.Spec.Replicas)
	}
	if w.outputs[provisioner.OutputEndpoint] != endpoint || w.outputs[provisioner.OutputVersion] != version {
		w.t.Errorf("%v", w.outputs)
	}
}

// A worker may be killed at any point: its successor begins the step anew, or the whole task.
func TestStepsCanBeCutOff(t *testing.T) {
	w := newWorld(t, 1)
	for i := range created {
		for _, after := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_ = w.try(ctx, v1alpha1.OperationCreate, created[i])
			cancel()
		}
		w.run(v1alpha1.OperationCreate, created[:i+1]...)
	}
	if machines := w.machines(); len(machines) != 1 {
		t.Errorf("machines %v", names(machines))
	}
	w.looksRight()
}

// What keeps a step from going on is told, and the step goes on once it is mended.
func TestErrorsOfHostsAreTold(t *testing.T) {
	w := newWorld(t, 1)
	w.hosts.missing = errors.New("there is no release")
	err := w.try(t.Context(), v1alpha1.OperationCreate, "prepare")
	if !task.IsPermanent(err) || !strings.Contains(err.Error(), "no release") || !strings.Contains(err.Error(), "Kubeadm") {
		t.Errorf("%v", err)
	}
	w.hosts.missing = nil
	w.run(v1alpha1.OperationCreate, created[:3]...)
	w.hosts.failing["prepare"] = &hostsetup.PreflightError{Host: "x", Findings: []hostsetup.Finding{{Message: "its disk is full"}}}
	if err := w.try(t.Context(), v1alpha1.OperationCreate, "prerequisites"); !task.IsPermanent(err) || !strings.Contains(err.Error(), "its disk is full") {
		t.Errorf("%v", err)
	}
	delete(w.hosts.failing, "prepare")
	w.hosts.failing["init"] = errors.New("the connection was lost")
	if err := w.try(t.Context(), v1alpha1.OperationCreate, "init"); err == nil || task.IsPermanent(err) {
		t.Errorf("%v", err)
	}
	delete(w.hosts.failing, "init")
	w.run(v1alpha1.OperationCreate, created...)
	w.looksRight()
}

// A machine that will never be made is told of.
func TestAMachineWithoutRoomIsToldOf(t *testing.T) {
	w := newWorld(t, 1)
	w.run(v1alpha1.OperationCreate, "prepare", "endpoint")
	returned := make(chan error, 1)
	go func() { returned <- w.try(t.Context(), v1alpha1.OperationCreate, "control-plane-machines") }()
	for len(w.machines()) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	w.set(w.machines()[0].Name, map[string]any{"observedGeneration": int64(1)}, v1alpha1.ReasonMachineNoCapacity, "Unknown")
	select {
	case err := <-returned:
		if err == nil || task.IsPermanent(err) {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on waiting")
	}
}

func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t, 1)
	w.run(v1alpha1.OperationCreate, created...)
	if err := w.resource("clusters", w.cluster.Namespace).Delete(t.Context(), "dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.reload()
	w.run(v1alpha1.OperationDelete, "remove-nodes", "remove-identity", "remove-namespace")
	if machines := w.machines(); len(machines) > 0 {
		t.Errorf("left: %v", names(machines))
	}
	if _, err := w.client.CoreV1().Namespaces().Get(t.Context(), w.home, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace: %v", err)
	}
	if left := w.outputs[provisioner.OutputInventory]; left != "" {
		t.Errorf("the inventory says %s is left", left)
	}
}
