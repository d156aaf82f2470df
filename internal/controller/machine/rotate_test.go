package machine

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
)

// rotating is a cluster with two machines whose owner asks for a new key.
func rotating(t *testing.T) (*Rotation, *keyed, func() *corev1.Secret, func() error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: "dev", UID: "1", Annotations: map[string]string{v1alpha1.AnnotationRotateSSHKey: "first"}},
		Spec:       v1alpha1.ClusterSpec{Type: v1alpha1.ClusterKubeadm},
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "project-a", Name: name} }
	of := func(name, id, account string) *v1alpha1.Machine {
		return &v1alpha1.Machine{ObjectMeta: meta(name), Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: account}, Status: v1alpha1.MachineStatus{ID: id}}
	}
	objects := fakeclient.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.Machine{}, ByCluster, func(o client.Object) []string {
		m, _ := o.(*v1alpha1.Machine)
		return []string{m.Spec.Cluster}
	}).WithObjects(c,
		&v1alpha1.Account{ObjectMeta: meta("local"), Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}},
		&v1alpha1.Account{ObjectMeta: meta("yard"), Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderSSH}},
		of("dev-a", "1", "local"), of("dev-b", "2", "local"), of("dev-unmade", "", "local"), of("dev-host", "3", "yard"),
	).Build()
	data := map[string][]byte{}
	if err := sshkey.Ensure(data, "dev"); err != nil {
		t.Fatal(err)
	}
	home := v1alpha1.InfrastructureNamespace(c)
	var api kubernetes.Interface = fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: sshkey.SecretName}, Data: data})
	driver := &keyed{}
	r := &Rotation{
		Client: objects, API: api, Recorder: events.NewFakeRecorder(100),
		Drivers: map[v1alpha1.Provider]machine.Driver{v1alpha1.ProviderLocal: driver, v1alpha1.ProviderSSH: failing{}},
	}
	secret := func() *corev1.Secret {
		t.Helper()
		secret, err := api.CoreV1().Secrets(home).Get(t.Context(), sshkey.SecretName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	reconcile := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		return err
	}
	return r, driver, secret, reconcile
}

func TestAKeyIsReplacedOnAllMachines(t *testing.T) {
	_, driver, secret, reconcile := rotating(t)
	before, err := sshkey.Current(secret().Data)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		if err := reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	now, err := sshkey.Current(secret().Data)
	if err != nil || now.Authorized() == before.Authorized() || sshkey.Replaced(secret().Data) {
		t.Errorf("the key is as before, or that is kept: %v", err)
	}
	if len(driver.rekeyed) != 2 || driver.rekeyed[0] != "dev-a" || driver.rekeyed[1] != "dev-b" {
		t.Errorf("told were %v", driver.rekeyed)
	}
}

func TestTheKeyBeforeIsKeptWhileAMachineDoesNotAnswer(t *testing.T) {
	_, driver, secret, reconcile := rotating(t)
	driver.err = errors.New("host 10.0.0.5: connection refused")
	for range 3 {
		if err := reconcile(); err == nil || !sshkey.Replaced(secret().Data) {
			t.Fatalf("the key before is gone: %v", err)
		}
	}
	key, err := sshkey.Current(secret().Data)
	if err != nil {
		t.Fatal(err)
	}
	driver.err = nil
	if err := reconcile(); err != nil || sshkey.Replaced(secret().Data) {
		t.Fatal(err)
	}
	if now, err := sshkey.Current(secret().Data); err != nil || now.Authorized() != key.Authorized() {
		t.Errorf("another key was made: %v", err)
	}
	driver.err = machine.ErrNotFound // a machine that is gone keeps nobody waiting
	if err := reconcile(); err != nil {
		t.Error(err)
	}
}
