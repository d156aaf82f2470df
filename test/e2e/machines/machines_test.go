//go:build e2e

// Package machines is the scenario of machines that are pods: the driver passes the conformance suite on a real cluster,
// and a machine becomes a node of another cluster, with the size it was asked for, and stays that node when its
// container is killed.
package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/drivertest"
	"plasmacloud.io/plasmacloud/internal/machine/pod"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "machines"

// fleet is a cluster whose pods are machines, and another one that machines join.
type fleet struct {
	host, tenant *lab.Node
	release      *release.Catalogue
	image        string
	client       kubernetes.Interface
	driver       *pod.Driver
}

func TestMachines(t *testing.T) {
	l := lab.New(t)
	image, err := l.Release.Image(release.ImageNode, l.Release.Versions()[0])
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{host: l.Node(t, "host"), tenant: l.Node(t, "tenant"), release: l.Release, image: image.Refs[0]}
	f.host.LayImages(t, "node", f.image)
	f.host.Start(t, "server")
	f.tenant.Start(t, "server", "--cluster-cidr", "10.52.0.0/16", "--service-cidr", "10.53.0.0/16")
	f.host.AwaitNodeReady(t, f.host.Name)
	f.host.Kubectl(t, "create", "namespace", namespace)
	f.client = clientOf(t, f.host)
	f.driver = pod.New(f.client, clock.RealClock{}, pod.Config{Image: f.image, PullPolicy: corev1.PullNever})

	lab.Step(t, "conformance", func(t *testing.T) {
		drivertest.Run(t, drivertest.Implementation{
			New:       func(*testing.T) machine.Driver { return f.driver },
			Namespace: namespace, Patience: 2 * time.Minute, Interval: 50 * time.Millisecond,
		})
	})
	lab.Step(t, "the conformance suite's machines are gone", f.nothingLeft)
	lab.Step(t, "what cannot be had is said", f.refusals)
	lab.Step(t, "a machine becomes a node", f.joins)
	lab.Step(t, "the node has the machine's size", f.hasSize)
	lab.Step(t, "a pod runs on it", f.runsPods)
	lab.Step(t, "pods on two machines reach one another", f.twoMachines)
	lab.Step(t, "it survives the death of its container", f.survives)
	lab.Step(t, "it goes within seconds", f.goes)
}

func clientOf(t *testing.T, node *lab.Node) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", node.Data.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial, config.QPS, config.Burst = node.Dial, 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (f *fleet) spec(name string) machine.Spec {
	return machine.Spec{
		Key: machine.Key{Namespace: namespace, Cluster: "dev", Name: name},
		CPU: resource.MustParse("1"), Memory: resource.MustParse("2Gi"), Disk: resource.MustParse("10Gi"),
	}
}

func (f *fleet) nothingLeft(t *testing.T) {
	// A pod whose host is slow to end it is struck off 45 s after its time.
	lab.Eventually(t, 3*time.Minute, "nothing is left in the namespace", func() error {
		pods, err := f.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there are %d pods, such as %s", len(pods.Items), pods.Items[0].Name)
		}
		secrets, err := f.client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(secrets.Items) > 0 {
			return fmt.Errorf("%d secrets, error %w", len(secrets.Items), err)
		}
		return nil
	})
}

func (f *fleet) refusals(t *testing.T) {
	large := f.spec("large")
	large.Memory = resource.MustParse("100Ti")
	if _, err := f.driver.Create(t.Context(), large); !errors.Is(err, machine.ErrNoCapacity) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a machine larger than the host: %v", err)
	}
	f.nothingLeft(t)
	strange := f.spec("strange")
	strange.Image = "plasmacloud.io/node:v0.0.1"
	if _, err := f.driver.Create(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	failed := f.await(t, strange.Key, machine.StateFailed)
	if !strings.Contains(failed.Message, strange.Image) || !strings.Contains(failed.Message, "import") {
		t.Errorf("an image that is missing: %s", failed.Message)
	}
	f.remove(t, strange.Key)
}

const machineName = "dev-worker-0"

func (f *fleet) joins(t *testing.T) {
	began := time.Now()
	spec := f.createNode(t, machineName)
	f.await(t, spec.Key, machine.StateRunning)
	running := time.Since(began)
	f.tenant.AwaitNodeReady(t, machineName)
	t.Logf("the machine ran after %.1f s, its node was ready after %.1f s", running.Seconds(), time.Since(began).Seconds())
	if mode := f.inside(t, "stat", "-c", "%a %U", "/etc/k8shost/token"); mode != "600 root" {
		t.Errorf("the token's file is %s", mode)
	}
	// The node may be ready before the last of the machine's own services is.
	if state := f.inside(t, "systemctl", "is-system-running", "--wait"); state != "running" {
		t.Errorf("the machine is %s: %s", state, f.inside(t, "systemctl", "--failed", "--no-pager"))
	}
}

// createNode makes a machine that joins the tenant's cluster.
func (f *fleet) createNode(t *testing.T, name string) machine.Spec {
	t.Helper()
	token := strings.TrimSpace(f.tenant.Run(t, "token", "create", "--ttl", "1h"))
	spec := f.spec(name)
	spec.Files = map[string][]byte{
		"/etc/k8shost/config.yaml": fmt.Appendf(nil, "server: %s\ntoken-file: /etc/k8shost/token\nnode-name: %s\nkubernetes-version: %s\nnode-label: [size=small]\n",
			f.tenant.URL(), name, strings.TrimPrefix(f.image, "plasmacloud.io/node:")),
		"/etc/k8shost/token": []byte(token + "\n"),
	}
	if _, err := f.driver.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func (f *fleet) hasSize(t *testing.T) {
	node, err := clientOf(t, f.tenant).CoreV1().Nodes().Get(t.Context(), machineName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := f.spec(machineName)
	capacity := node.Status.Capacity
	if capacity.Cpu().Cmp(spec.CPU) != 0 || capacity.Memory().Cmp(spec.Memory) != 0 {
		t.Errorf("the node has %s CPUs and %s, not %s and %s", capacity.Cpu(), capacity.Memory(), spec.CPU.String(), spec.Memory.String())
	}
	// A file system takes a little of the disk for itself.
	if storage, most := capacity.StorageEphemeral().Value(), spec.Disk.Value(); storage > most || storage < most*95/100 {
		t.Errorf("the node has %d bytes of storage, its disk %d", storage, most)
	}
	if node.Labels["size"] != "small" {
		t.Errorf("the node has labels %v", node.Labels)
	}
	found := f.get(t)
	if node.Status.NodeInfo.MachineID != strings.ReplaceAll(found.ID, "-", "") {
		t.Errorf("the node says it is machine %s, which is %s", node.Status.NodeInfo.MachineID, found.ID)
	}
	if address := node.Status.Addresses[0].Address; address != found.Address {
		t.Errorf("the node has address %s, its machine %s", address, found.Address)
	}
}

const web = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: %s
  containers:
    - name: web
      image: %s
      imagePullPolicy: Never
      command: [sh, -c, 'mkdir -p /srv && echo served > /srv/index.html && exec httpd -f -p 8080 -h /srv']
`

func (f *fleet) runsPods(t *testing.T) {
	f.giveToolbox(t, machineName)
	f.tenant.KubectlWith(t, fmt.Sprintf(web, machineName, lab.Toolbox), "apply", "-f", "-")
	f.webAnswers(t)
}

// asker is ready while it reaches the other pod: directly, and by the address of a service.
const asker = `apiVersion: v1
kind: Pod
metadata: {name: asker}
spec:
  nodeName: %s
  containers:
    - name: asker
      image: %s
      imagePullPolicy: Never
      command: [sleep, infinity]
      readinessProbe:
        periodSeconds: 1
        timeoutSeconds: 5
        exec: {command: [sh, -c, 'wget -qO- http://%s:8080 | grep served && wget -qO- http://%s:8080 | grep served']}
`

func (f *fleet) twoMachines(t *testing.T) {
	const other = "dev-worker-1"
	key := f.createNode(t, other).Key
	f.tenant.Kubectl(t, "expose", "pod", "web", "--port", "8080")
	pod := f.tenant.Kubectl(t, "get", "pod", "web", "-o", "jsonpath={.status.podIP}")
	service := f.tenant.Kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	f.tenant.AwaitNodeReady(t, other)
	f.giveToolbox(t, other)
	f.tenant.KubectlWith(t, fmt.Sprintf(asker, other, lab.Toolbox, pod, service), "apply", "-f", "-")
	f.tenant.Kubectl(t, "wait", "pod", "asker", "--for=condition=Ready", "--timeout=60s")
	f.remove(t, key)
	f.tenant.Kubectl(t, "delete", "node", other)
}

// giveToolbox imports an image into the machine's own runtime.
func (f *fleet) giveToolbox(t *testing.T, name string) {
	t.Helper()
	var archive bytes.Buffer
	if err := f.release.Export(&archive, lab.Toolbox); err != nil {
		t.Fatal(err)
	}
	f.host.KubectlWith(t, archive.String(), "exec", "-i", "-n", namespace, name, "--", "ctr",
		"--address", datadir.New("/var/lib/k8shost").ContainerdSocket(), "--namespace", "k8s.io", "images", "import", "--local", "-")
}

func (f *fleet) webAnswers(t *testing.T) {
	t.Helper()
	f.tenant.Kubectl(t, "wait", "pod", "web", "--for=condition=Ready", "--timeout=110s")
	address := f.tenant.Kubectl(t, "get", "pod", "web", "-o", "jsonpath={.status.podIP}")
	lab.Eventually(t, time.Minute, "the pod answers on the machine", func() error {
		script := fmt.Sprintf("exec 3<>/dev/tcp/%s/8080; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3", address)
		output, err := f.host.TryKubectl("exec", "-n", namespace, machineName, "--", "bash", "-c", script)
		if err == nil && !strings.Contains(output, "served") {
			err = fmt.Errorf("it says %q", output)
		}
		return err
	})
}

func (f *fleet) survives(t *testing.T) {
	before, key := f.get(t), f.inside(t, "cat", "/var/lib/machine/ssh_host_ed25519_key.pub")
	uid := f.tenant.Kubectl(t, "get", "node", machineName, "-o", "jsonpath={.metadata.uid}")
	container := f.host.Kubectl(t, "get", "pod", "-n", namespace, machineName, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	ctr, err := f.release.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	kill := exec.Command(ctr, "--address", f.host.Data.ContainerdSocket(), "--namespace", "k8s.io",
		"tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(container, "containerd://"))
	if output, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("kill the machine: %v: %s", err, output)
	}
	lab.Eventually(t, 2*time.Minute, "the container is started again", func() error {
		count, err := f.host.TryKubectl("get", "pod", "-n", namespace, machineName, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		if err == nil && count != "1" {
			err = fmt.Errorf("it was started again %s times", count)
		}
		return err
	})
	after := f.await(t, before.Key, machine.StateRunning)
	lab.Eventually(t, 2*time.Minute, "the agent is up again", func() error {
		_, err := f.host.TryKubectl("exec", "-n", namespace, machineName, "--", "systemctl", "is-active", "k8shost-agent.service")
		return err
	})
	t.Logf("the machine was back after %.1f s", time.Since(began).Seconds())
	f.tenant.AwaitNodeReady(t, machineName)
	if after.ID != before.ID || after.Address != before.Address {
		t.Errorf("the machine was %+v and is %+v", before, after)
	}
	if now := f.tenant.Kubectl(t, "get", "node", machineName, "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Errorf("the node is another one")
	}
	if now := f.inside(t, "cat", "/var/lib/machine/ssh_host_ed25519_key.pub"); now != key {
		t.Errorf("the machine has another SSH host key")
	}
	lab.Eventually(t, 2*time.Minute, "its pod was started again", func() error {
		count, err := f.tenant.TryKubectl("get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		if err == nil && count == "0" {
			err = errors.New("it was not")
		}
		return err
	})
	f.webAnswers(t)
}

func (f *fleet) goes(t *testing.T) {
	began := time.Now()
	f.remove(t, f.spec(machineName).Key)
	took := time.Since(began)
	t.Logf("the machine was gone after %.1f s", took.Seconds())
	// It is told to shut down and does; being cut off would take longer.
	if took > 9*time.Second {
		t.Errorf("it took %s", took)
	}
	f.nothingLeft(t)
}

func (f *fleet) inside(t *testing.T, command ...string) string {
	t.Helper()
	return f.host.Kubectl(t, append([]string{"exec", "-n", namespace, machineName, "--"}, command...)...)
}

func (f *fleet) get(t *testing.T) *machine.Machine {
	t.Helper()
	found, err := f.driver.Get(t.Context(), f.spec(machineName).Key)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (f *fleet) await(t *testing.T, key machine.Key, state machine.State) *machine.Machine {
	t.Helper()
	var found *machine.Machine
	lab.Eventually(t, 2*time.Minute, fmt.Sprintf("%s is %s", key, state), func() (err error) {
		if found, err = f.driver.Get(t.Context(), key); err == nil && found.State != state {
			err = fmt.Errorf("it is %s: %s", found.State, found.Message)
		}
		return err
	})
	return found
}

func (f *fleet) remove(t *testing.T, key machine.Key) {
	t.Helper()
	if err := f.driver.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, time.Minute, fmt.Sprintf("%s is gone", key), func() error {
		found, err := f.driver.Get(context.WithoutCancel(t.Context()), key)
		if errors.Is(err, machine.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("%+v, error %w", found, err)
	})
}
