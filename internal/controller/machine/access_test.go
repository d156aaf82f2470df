package machine

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// keyed is a driver whose machines have the keys they are described with.
type keyed struct {
	machine.Driver
	rekeyed []string
	err     error
}

func (k *keyed) Reach(context.Context, machine.Key) (*remote.Client, error) {
	return remote.NewPool(remote.Config{}).Client(remote.Host{}), k.err
}

func (k *keyed) Rekey(_ context.Context, key machine.Key) error {
	k.rekeyed = append(k.rekeyed, key.Name)
	return k.err
}

// remembered is a Setup that does nothing.
type remembered struct {
	jobs  []Job
	ended []types.UID
	says  Progress
}

func (r *remembered) Ensure(job Job) Progress                { r.jobs = append(r.jobs, job); return r.says }
func (r *remembered) End(uid types.UID) bool                 { r.ended = append(r.ended, uid); return true }
func (r *remembered) Notify(func(name types.NamespacedName)) {}

// onMachines is the setting of a cluster on machines.
func onMachines(t *testing.T, clusterType v1alpha1.ClusterType) (*Reconciler, *scope, *remembered) {
	t.Helper()
	r, s := setting(t, "u1.large")
	s.cluster.Spec.Type = clusterType
	s.group.Spec.Template.GPUs = nil
	s.machine.Spec.TemplateHash = TemplateHash(&s.group.Spec.Template, "v1.36.3")
	s.driver = &keyed{Driver: s.driver}
	setup := &remembered{says: Progress{Message: "halfway"}}
	r.Setup = setup
	r.Catalogue = func() (*catalogue.Catalogue, error) {
		offered, err := catalogue.New([]string{"v1.36.3"}, nil)
		if err == nil {
			offered.Images = map[string]map[string]string{"v1.36.3": {"node": "plasmacloud.io/node:v1.36.3"}}
		}
		return offered, err
	}
	data := map[string][]byte{}
	if err := sshkey.Ensure(data, "dev"); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: sshkey.SecretName}, Data: data}
	if _, err := r.API.CoreV1().Secrets(s.key().Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return r, s, setup
}

func TestAMachineOfAClusterOnMachinesBootsWithKeysOnly(t *testing.T) {
	for _, clusterType := range []v1alpha1.ClusterType{v1alpha1.ClusterKubeadm, v1alpha1.ClusterK3s} {
		r, s, _ := onMachines(t, clusterType)
		if err := r.API.CoreV1().Secrets(s.key().Namespace).Delete(t.Context(), bootstrap.JoinSecretName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		spec, err := r.spec(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Files) != 0 || len(spec.AuthorizedKeys) != 1 || len(spec.HostKey) == 0 || spec.Image != "plasmacloud.io/node:v1.36.3" || spec.CPU.IsZero() {
			t.Errorf("%s: %+v", clusterType, spec)
		}
		again, err := r.spec(t.Context(), s)
		if err != nil || string(again.HostKey) != string(spec.HostKey) {
			t.Errorf("%s: another host key the second time: %v", clusterType, err)
		}
		if err := r.dropHostKey(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if next, err := r.spec(t.Context(), s); err != nil || string(next.HostKey) == string(spec.HostKey) {
			t.Errorf("%s: the key of a machine that is gone was kept: %v", clusterType, err)
		}
	}
}

func TestHostsOfOthersGetNoKeys(t *testing.T) {
	r, s, _ := onMachines(t, v1alpha1.ClusterKubeadm)
	s.driver = s.driver.(*keyed).Driver
	spec, err := r.spec(t.Context(), s)
	if err != nil || len(spec.AuthorizedKeys)+len(spec.HostKey)+len(spec.Files) > 0 || spec.Image != "" {
		t.Errorf("%+v: %v", spec, err)
	}
}

func TestAControlPlaneMachineIsMadeBeforeThereIsAnEndpoint(t *testing.T) {
	r, s, setup := onMachines(t, v1alpha1.ClusterKubeadm)
	s.cluster.Status.Endpoint, s.cluster.Status.Version = "", ""
	if err := r.provide(t.Context(), s); err == nil {
		t.Error("a worker was made without an endpoint")
	}
	s.group, s.machine.Spec.NodeGroup, s.machine.Spec.TemplateHash = nil, "", ""
	s.machine.Spec.Role, s.machine.Spec.Version = v1alpha1.MachineControlPlane, "v1.36.3"
	if err := r.provide(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.found.State, s.found.Address = machine.StateRunning, "10.0.0.7"
	r.setUp(t.Context(), s)
	observe(s, tenant.ErrNotConnected)
	if ready := s.machine.Status.Conditions[0]; len(setup.jobs) > 0 || !strings.Contains(ready.Message, "the cluster's task makes it a part of the control plane") {
		t.Errorf("%+v, %+v", setup.jobs, ready)
	}
}

func TestAWorkerIsSetUpAsFarAsCanBe(t *testing.T) {
	r, s, setup := onMachines(t, v1alpha1.ClusterKubeadm)
	s.found = &machine.Machine{State: machine.StatePending}
	if r.setUp(t.Context(), s); len(setup.jobs) > 0 {
		t.Error("a machine that does not run was set up")
	}
	s.found = &machine.Machine{State: machine.StateRunning, Address: "10.0.0.7"}
	r.setUp(t.Context(), s)
	observe(s, tenant.ErrNotConnected)
	ready := s.machine.Status.Conditions[0]
	if len(setup.jobs) != 1 || setup.jobs[0].Token != "" || setup.jobs[0].Host.Address != "10.0.0.7" || setup.jobs[0].Host.Name != s.machine.Name || !strings.Contains(ready.Message, "halfway") {
		t.Errorf("without an API: %+v, %+v", setup.jobs, ready)
	}
	if job := setup.jobs[0]; len(job.Host.Taints) != 1 || job.Host.Labels["tier"] != "front" || job.Host.Labels["node.kubernetes.io/x"] != "" {
		t.Errorf("%+v", job.Host)
	}
	s.connection = &tenant.Connection{}
	r.setUp(t.Context(), s)
	if job := setup.jobs[1]; len(job.Token) != 6+1+16 || job.Join.Server != "https://10.0.0.1:6443" {
		t.Errorf("with an API: %+v", job)
	}
	setup.says = Progress{Err: errors.New("host 10.0.0.7: prerequisites: disk full; make room for 3 MiB")}
	r.setUp(t.Context(), s)
	observe(s, nil)
	if ready := s.machine.Status.Conditions[0]; ready.Reason != ReasonSetupFailed || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "make room") {
		t.Errorf("%+v", ready)
	}
	s.driver.(*keyed).err = errors.New("it is Pending")
	setup.jobs = nil
	if r.setUp(t.Context(), s); len(setup.jobs) > 0 || s.setup.Err == nil {
		t.Errorf("one that cannot be reached: %+v", s.setup)
	}
	set(s.machine, ConditionJoined, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	s.setup = Progress{}
	if r.setUp(t.Context(), s); s.setup.Err != nil {
		t.Error("a node was set up again")
	}
}

func TestTokensAreOfTheGroupThatTheClusterKnows(t *testing.T) {
	for clusterType, want := range map[v1alpha1.ClusterType]string{
		v1alpha1.ClusterKubeadm: "system:bootstrappers:kubeadm:default-node-token", v1alpha1.ClusterK3s: "system:bootstrappers:k8shost:agent",
	} {
		r, s, _ := onMachines(t, clusterType)
		own, err := r.token(t.Context(), s, strings.Repeat("ab", 32))
		if err != nil {
			t.Fatal(err)
		}
		secret, err := r.published(s, own)
		if err != nil || string(secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]) != want {
			t.Errorf("%s: %s, %v", clusterType, secret.Data, err)
		}
	}
}
