package pod

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/drivertest"
	"plasmacloud.io/plasmacloud/internal/machine/guest"
)

// newCluster is an API in which pods are dealt with, by what the function makes of each, as soon as they are created.
func newCluster(deal func(*corev1.Pod)) *fake.Clientset {
	client := fake.NewClientset()
	var made atomic.Int64
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		if !ok {
			return false, nil, errors.New("not a pod")
		}
		pod.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", made.Add(1)))
		pod.ResourceVersion = "1"
		deal(pod)
		return false, nil, nil
	})
	return client
}

// run makes a pod one that runs.
func run(pod *corev1.Pod) {
	pod.Spec.NodeName = "host"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.42.0.7",
		ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
}

// refuse makes a pod one that no host takes.
func refuse(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1 nodes are available: 1 Insufficient memory.",
	}}
}

func newDriver(client *fake.Clientset) *Driver {
	return New(client, clocktesting.NewFakePassiveClock(time.Now()), Config{Image: "example.com/node:v1"})
}

func newSpec(name string) machine.Spec {
	return machine.Spec{
		Key: machine.Key{Namespace: "infra", Cluster: "dev", Name: name},
		CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi"), Disk: resource.MustParse("20Gi"),
	}
}

func TestConformance(t *testing.T) {
	client := newCluster(run)
	drivertest.Run(t, drivertest.Implementation{
		New:       func(*testing.T) machine.Driver { return newDriver(client) },
		Namespace: "infra", Patience: 30 * time.Second, Interval: 5 * time.Millisecond,
	})
}

func TestDescriptionOfAMachine(t *testing.T) {
	spec := newSpec("dev-workers-a")
	spec.AuthorizedKeys = []string{"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"}
	spec.Files = map[string][]byte{"/etc/k8shost/token": []byte("secret"), "/etc/k8shost/config.yaml": []byte("server: x")}
	spec.Labels = map[string]string{"plasmacloud.io/node-group": "workers"}
	pod, secret, err := newDriver(fake.NewClientset()).describe(spec)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "dev-workers-a" || pod.Spec.Hostname != "dev-workers-a" || pod.Namespace != "infra" {
		t.Errorf("pod %s/%s with host name %s", pod.Namespace, pod.Name, pod.Spec.Hostname)
	}
	if keyOf(pod) != spec.Key || pod.Labels["plasmacloud.io/node-group"] != "workers" || pod.Labels["plasmacloud.io/component"] != "machine" {
		t.Errorf("labels %v", pod.Labels)
	}
	container := pod.Spec.Containers[0]
	if container.Image != "example.com/node:v1" || container.ImagePullPolicy != corev1.PullIfNotPresent || !*container.SecurityContext.Privileged {
		t.Errorf("container %+v", container)
	}
	if *pod.Spec.AutomountServiceAccountToken || pod.Spec.DNSPolicy != corev1.DNSDefault || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("pod %+v", pod.Spec)
	}
	if disk := pod.Spec.Volumes[0].EmptyDir; disk == nil || disk.SizeLimit.Value() != 20<<30+besidesDisk || container.VolumeMounts[0].MountPath != guest.DiskDir {
		t.Errorf("disk %+v", disk)
	}
	paths := map[string]string{}
	for _, item := range pod.Spec.Volumes[1].Secret.Items {
		paths[item.Path] = string(secret.Data[item.Key])
	}
	if len(paths) != 3 || paths["etc/k8shost/token"] != "secret" || paths["root/.ssh/authorized_keys"] != "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n" {
		t.Errorf("files %v", paths)
	}
	if !*secret.Immutable || pod.Spec.Volumes[1].Secret.SecretName != secret.Name {
		t.Errorf("secret %s, mounted is %s", secret.Name, pod.Spec.Volumes[1].Secret.SecretName)
	}
	if text := fmt.Sprint(pod); strings.Contains(text, "secret:x") || strings.Contains(text, "server: x") {
		t.Error("a file's content is in the pod")
	}
}

func TestRequestsFollowTheSeries(t *testing.T) {
	for _, c := range []struct {
		dedicated, overcommitted bool
		cpu, memory              string
	}{
		{false, false, "200m", "4Gi"},
		{true, false, "2", "4Gi"},
		{false, true, "200m", "2Gi"},
	} {
		spec := newSpec("m0")
		spec.DedicatedCPU, spec.OvercommittedMemory = c.dedicated, c.overcommitted
		got := resources(spec)
		if got.Requests.Cpu().String() != c.cpu || got.Requests.Memory().String() != c.memory {
			t.Errorf("%+v: requests %v", c, got.Requests)
		}
		if got.Limits.Cpu().String() != "2" || got.Limits.Memory().String() != "4Gi" {
			t.Errorf("%+v: limits %v", c, got.Limits)
		}
	}
}

func TestWhatMeansTheSameIsTheSameMachine(t *testing.T) {
	driver := newDriver(newCluster(run))
	spec := newSpec("m0")
	first, err := driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.CPU, spec.Memory, spec.Image = resource.MustParse("2000m"), resource.MustParse("4096Mi"), "example.com/node:v1"
	second, err := driver.Create(t.Context(), spec)
	if err != nil || second.ID != first.ID {
		t.Errorf("%+v, error %v", second, err)
	}
	spec.Files = map[string][]byte{"/etc/motd": []byte("hello")}
	if _, err := driver.Create(t.Context(), spec); !errors.Is(err, machine.ErrConflict) {
		t.Errorf("with other files: %v", err)
	}
}

func TestWhatNoPodCanBe(t *testing.T) {
	for what, spoil := range map[string]func(*machine.Spec){
		"gpu":      func(s *machine.Spec) { s.GPUs = []string{"a100"} },
		"network":  func(s *machine.Spec) { s.Network = "vpc-1" },
		"label":    func(s *machine.Spec) { s.Labels = map[string]string{"a b": "c"} },
		"relative": func(s *machine.Spec) { s.Files = map[string][]byte{"etc/motd": nil} },
		"outside":  func(s *machine.Spec) { s.Files = map[string][]byte{"/etc/../root/x": nil} },
		"dots":     func(s *machine.Spec) { s.Files = map[string][]byte{"/etc/..data": nil} },
		"large":    func(s *machine.Spec) { s.Files = map[string][]byte{"/big": make([]byte, 2<<20)} },
		"key":      func(s *machine.Spec) { s.AuthorizedKeys = []string{"a\nb"} },
		"keys twice": func(s *machine.Spec) {
			s.AuthorizedKeys, s.Files = []string{"a"}, map[string][]byte{guest.AuthorizedKeysFile: nil}
		},
		"a long name":  func(s *machine.Spec) { s.Key.Name = strings.Repeat("a", 64) },
		"no namespace": func(s *machine.Spec) { s.Key.Namespace = "" },
	} {
		spec := newSpec("m0")
		spoil(&spec)
		client := newCluster(run)
		if _, err := newDriver(client).Create(t.Context(), spec); !errors.Is(err, machine.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if len(client.Actions()) > 0 {
			t.Errorf("%s: the API was asked: %v", what, client.Actions())
		}
	}
	bare := New(newCluster(run), clocktesting.NewFakePassiveClock(time.Now()), Config{})
	if _, err := bare.Create(t.Context(), newSpec("m0")); !errors.Is(err, machine.ErrInvalid) {
		t.Errorf("without an image: %v", err)
	}
}

func TestWithoutRoomNothingIsLeft(t *testing.T) {
	client := newCluster(refuse)
	driver := newDriver(client)
	_, err := driver.Create(t.Context(), newSpec("m0"))
	if !errors.Is(err, machine.ErrNoCapacity) || !strings.Contains(err.Error(), "Insufficient memory") || !strings.Contains(err.Error(), "4Gi") {
		t.Errorf("error %v", err)
	}
	assertNothing(t, client)
}

func assertNothing(t *testing.T, client *fake.Clientset) {
	t.Helper()
	pods, podsErr := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	secrets, secretsErr := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err := errors.Join(podsErr, secretsErr); err != nil || len(pods.Items) != 0 || len(secrets.Items) != 0 {
		t.Errorf("left are %d pods and %d secrets, error %v", len(pods.Items), len(secrets.Items), err)
	}
}

func TestTheSchedulerMayTakeItsTime(t *testing.T) {
	client := newCluster(func(*corev1.Pod) {})
	driver := newDriver(client)
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		found, err := client.Tracker().Get(pods, "infra", "dev-m0")
		if err != nil {
			return true, nil, err
		}
		pod, _ := found.DeepCopyObject().(*corev1.Pod)
		refuse(pod)
		events := watch.NewFakeWithChanSize(1, false)
		events.Modify(pod)
		return true, events, nil
	})
	_, err := driver.Create(t.Context(), newSpec("m0"))
	if !errors.Is(err, machine.ErrNoCapacity) {
		t.Errorf("error %v", err)
	}
	assertNothing(t, client)
}

func TestAQuotaIsALackOfRoom(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "dev-m0", errors.New("exceeded quota: project"))
	})
	if _, err := newDriver(client).Create(t.Context(), newSpec("m0")); !errors.Is(err, machine.ErrNoCapacity) {
		t.Errorf("error %v", err)
	}
}

func TestFilesGoWithTheirMachine(t *testing.T) {
	client := newCluster(run)
	driver := newDriver(client)
	spec := newSpec("m0")
	spec.Files = map[string][]byte{"/etc/motd": []byte("hello")}
	made, err := driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := client.CoreV1().Secrets("infra").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 || len(secrets.Items[0].OwnerReferences) != 1 || string(secrets.Items[0].OwnerReferences[0].UID) != made.ID {
		t.Fatalf("secrets %+v, error %v", secrets.Items, err)
	}
	// Somebody else's Secret has the machine's labels, but is no file of it.
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "m0-token", Labels: map[string]string{"plasmacloud.io/cluster": "dev", "plasmacloud.io/machine": "m0"}}}
	if _, err := client.CoreV1().Secrets("infra").Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := driver.Delete(t.Context(), spec.Key); err != nil {
		t.Fatal(err)
	}
	secrets, err = client.CoreV1().Secrets("infra").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 || secrets.Items[0].Name != "m0-token" {
		t.Errorf("secrets %+v, error %v", secrets.Items, err)
	}
}
