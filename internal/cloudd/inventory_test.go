package cloudd

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	machinessh "plasmacloud.io/plasmacloud/internal/machine/ssh"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

func TestHostsAreThoseOfTheAccountOfTheClustersNetwork(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "project-web", Name: name} }
	cluster := &v1alpha1.Cluster{ObjectMeta: named("dev"), Spec: v1alpha1.ClusterSpec{Network: "metal"}}
	cluster.UID = "1"
	home := v1alpha1.InfrastructureNamespace(cluster)
	objects := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(cluster,
		&v1alpha1.Network{ObjectMeta: named("metal"), Spec: v1alpha1.NetworkSpec{Account: "yard"}},
		&v1alpha1.Account{ObjectMeta: named("yard"), Spec: v1alpha1.AccountSpec{
			Provider: v1alpha1.ProviderSSH, Credentials: &v1alpha1.SecretReference{Name: "key"},
			SSH: &v1alpha1.SSHInventory{TrustOnFirstUse: true, Hosts: []v1alpha1.SSHHost{{Address: "10.0.0.5", User: "ops"}}},
		}},
	).Build()
	key, err := remote.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	i := inventory{Reader: objects, api: fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home, Labels: map[string]string{v1alpha1.LabelProject: "web"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-dev-old", Labels: map[string]string{v1alpha1.LabelProject: "web"}}},
		&corev1.Secret{ObjectMeta: named("key"), Data: map[string][]byte{corev1.SSHAuthPrivateKey: key}},
	)}
	account, err := i.AccountOf(t.Context(), machine.Key{Namespace: home, Cluster: "dev", Name: "dev-a"})
	if err != nil || account != (types.NamespacedName{Namespace: "project-web", Name: "yard"}) {
		t.Fatalf("%v: %v", account, err)
	}
	if _, err := i.AccountOf(t.Context(), machine.Key{Namespace: "cluster-dev-old", Cluster: "dev", Name: "dev-a"}); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("of an older cluster of the same name: %v", err)
	}
	hosts, err := i.Hosts(t.Context(), account)
	if err != nil || len(hosts) != 1 || hosts[0].Access.Address != "10.0.0.5" || hosts[0].Access.User != "ops" || !hosts[0].TrustOnFirstUse {
		t.Errorf("%+v: %v", hosts, err)
	}
	if hosts, err := i.Hosts(t.Context(), types.NamespacedName{Namespace: "project-web", Name: "gone"}); err != nil || len(hosts) > 0 {
		t.Errorf("of an account that is gone: %v, %v", hosts, err)
	}
}

func TestHostsMayBeKeptForSome(t *testing.T) {
	spec := machine.Spec{Labels: map[string]string{v1alpha1.LabelNodeGroup: "gpu", v1alpha1.LabelCluster: "dev"}}
	for name, c := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"without labels":  {nil, true},
		"of other labels": {map[string]string{"rack": "3"}, true},
		"for its group":   {map[string]string{v1alpha1.LabelNodeGroup: "gpu"}, true},
		"for another":     {map[string]string{v1alpha1.LabelNodeGroup: "web"}, false},
	} {
		if got := fits(spec, machinessh.Host{Labels: c.labels}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
