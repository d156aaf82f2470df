package machine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
	"plasmacloud.io/plasmacloud/internal/machine"
	fakemachine "plasmacloud.io/plasmacloud/internal/machine/fake"
)

// setting is a machine whose cluster says how to join it.
func setting(t *testing.T, instanceType string) (*Reconciler, *scope) {
	t.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: "dev", UID: "1"}}
	cluster.Status.Endpoint, cluster.Status.Version = "https://10.0.0.1:6443", "v1.36.3"
	group := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Cluster: "dev", Group: "workers", Template: v1alpha1.NodeGroupTemplate{
		InstanceType: instanceType, Roles: []string{"ingress-nginx"}, Labels: map[string]string{"tier": "front", "node.kubernetes.io/x": "y"},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "front", Effect: corev1.TaintEffectNoSchedule}}, GPUs: []v1alpha1.GPU{{Name: "nvidia.com/L40S"}},
	}}}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: "dev-workers-abcde"}, Spec: v1alpha1.MachineSpec{
		Cluster: "dev", NodeGroup: "workers", InstanceType: instanceType, Version: "v1.36.3",
		Resources:        v1alpha1.Resources{CPU: ptr.To(resource.MustParse("2")), Memory: ptr.To(resource.MustParse("8Gi"))},
		EphemeralStorage: ptr.To(resource.MustParse("20Gi")), TemplateHash: TemplateHash(&group.Spec.Template, "v1.36.3"),
	}}
	join, err := json.Marshal(bootstrap.Join{
		Server: "https://10.0.0.1:6443", CA: []byte("pem"), CAHash: strings.Repeat("ab", 32), KubernetesVersion: "v1.36.3", NodeImage: "plasmacloud.io/node:v1.36.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{
		API: fake.NewClientset(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.InfrastructureNamespace(cluster), Name: bootstrap.JoinSecretName},
			Data:       map[string][]byte{bootstrap.JoinSecretKey: join},
		}),
		Clock:     clock.RealClock{},
		Catalogue: func() (*catalogue.Catalogue, error) { return catalogue.New([]string{"v1.36.3"}, nil) },
	}
	return r, &scope{machine: m, cluster: cluster, group: group, driver: fakemachine.New(clock.RealClock{}, fakemachine.Config{})}
}

func TestAMachineIsDescribedToItsDriver(t *testing.T) {
	r, s := setting(t, "u1.large")
	spec, err := r.spec(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	config := string(spec.Files[configFile])
	for _, want := range []string{
		"server: https://10.0.0.1:6443\n", "token-file: /etc/k8shost/token\n", "node-name: dev-workers-abcde\n", "kubernetes-version: v1.36.3\n",
		"- tier=front\n", "- plasmacloud.io/node-group=workers\n", "- dedicated=front:NoSchedule\n",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("%q is missing in\n%s", want, config)
		}
	}
	for _, forbidden := range []string{"node-role.kubernetes.io", "node.kubernetes.io"} {
		if strings.Contains(config, forbidden) {
			t.Errorf("a kubelet may not set %s:\n%s", forbidden, config)
		}
	}
	own, err := token.Parse(string(spec.Files[tokenFile]))
	if err != nil || own.JoinsServers() || own.CAHash() != strings.Repeat("ab", 32) {
		t.Errorf("token %s: %v", own, err)
	}
	if spec.CPU.String() != "2" || spec.Memory.String() != "8Gi" || spec.Disk.String() != "20Gi" || spec.Image != "plasmacloud.io/node:v1.36.3" || len(spec.GPUs) != 1 {
		t.Errorf("%+v", spec)
	}
	again, err := r.spec(t.Context(), s)
	if err != nil || string(again.Files[tokenFile]) != string(spec.Files[tokenFile]) {
		t.Errorf("the second time it is described otherwise: %v", err)
	}
}

func TestSeriesSayHowMachinesShare(t *testing.T) {
	for instanceType, want := range map[string][2]bool{"u1.large": {false, false}, "cx1.large": {true, false}, "o1.large": {false, true}} {
		r, s := setting(t, instanceType)
		spec, err := r.spec(t.Context(), s)
		if got := [2]bool{spec.DedicatedCPU, spec.OvercommittedMemory}; err != nil || got != want {
			t.Errorf("%s: %v, want %v: %v", instanceType, got, want, err)
		}
	}
	r, s := setting(t, "u9.large")
	if _, err := r.spec(t.Context(), s); !errors.Is(err, machine.ErrInvalid) {
		t.Error(err)
	}
}

func TestAnotherVersionIsAnotherImage(t *testing.T) {
	join := bootstrap.Join{KubernetesVersion: "v1.36.3", NodeImage: "example.com/node:v1.36.3"}
	got := forVersion(join, "v1.35.4")
	if got.NodeImage != "example.com/node:v1.35.4" || got.KubernetesVersion != "v1.35.4" || forVersion(join, "").NodeImage != join.NodeImage {
		t.Errorf("%+v", got)
	}
}

func TestWhatKeepsAMachineFromBeingMade(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*scope)
		reason string
		phase  v1alpha1.Phase
	}{
		"no endpoint":        {func(s *scope) { s.cluster.Status.Endpoint = "" }, v1alpha1.ReasonWaiting, v1alpha1.PhasePending},
		"older description":  {func(s *scope) { s.machine.Spec.TemplateHash = "old" }, v1alpha1.ReasonWaiting, v1alpha1.PhasePending},
		"no driver":          {func(s *scope) { s.driver = nil }, v1alpha1.ReasonUnsupported, v1alpha1.PhasePending},
		"no size":            {func(s *scope) { s.machine.Spec.Resources.CPU = nil }, ReasonInvalid, v1alpha1.PhaseFailed},
		"another cluster's":  {func(s *scope) { s.cluster.UID = "2" }, v1alpha1.ReasonWaiting, v1alpha1.PhasePending},
		"the provider fails": {func(s *scope) { s.driver = failing{s.driver, errors.New("out of order")} }, ReasonProviderError, v1alpha1.PhasePending},
		"no room":            {func(s *scope) { s.driver = failing{s.driver, machine.ErrNoCapacity} }, ReasonNoCapacity, v1alpha1.PhasePending},
	} {
		r, s := setting(t, "u1.large")
		test.change(s)
		err := r.provide(t.Context(), s)
		if err == nil {
			t.Errorf("%s: it was made", name)
			continue
		}
		_, _ = unprovided(s, err)
		if ready := s.machine.Status.Conditions; len(ready) != 1 || ready[0].Reason != test.reason || ready[0].Message == "" || s.machine.Status.Phase != test.phase {
			t.Errorf("%s: %s %+v", name, s.machine.Status.Phase, ready)
		}
	}
}

// failing is a driver that makes nothing.
type failing struct {
	machine.Driver
	err error
}

func (f failing) Create(context.Context, machine.Spec) (*machine.Machine, error) { return nil, f.err }

func TestWhatWasMadeBeforeACrashIsFound(t *testing.T) {
	r, s := setting(t, "u1.large")
	if err := r.provide(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	first := s.found.ID
	s.found = nil // the end came before it was written down
	if err := r.provide(t.Context(), s); err != nil || s.found.ID != first {
		t.Errorf("%+v: %v", s.found, err)
	}
	// Another version describes machines otherwise.
	s.machine.Spec.EphemeralStorage = ptr.To(resource.MustParse("21Gi"))
	if err := r.provide(t.Context(), s); err != nil || s.found.ID != first {
		t.Errorf("%+v: %v", s.found, err)
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	r := &Reconciler{Clock: clock.RealClock{}}
	own, err := token.NewBootstrap(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]bool{tokenLifetime: false, tokenLifetime/2 + time.Minute: false, tokenLifetime/2 - time.Minute: true, -time.Hour: true} {
		secret, err := token.BootstrapSecret(own, "", time.Now().Add(left))
		if err != nil || r.expiresSoon(secret) != want {
			t.Errorf("with %s left: %v", left, err)
		}
	}
}
