//go:build e2e

// Package hostsetup is the scenario of hosts that become a cluster by what is done on them over SSH, without the
// platform: machines that are pods are prepared, and kubeadm makes them a highly available control plane with a worker.
// What is stopped, changed or lost is found and mended; a host that is cleaned has nothing left.
package hostsetup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/hostsetup/kubeadm"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/pod"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "machines"

// world is a cluster whose pods are machines, and what is made of them.
type world struct {
	node         *lab.Node
	release      *release.Catalogue
	version      string
	driver       *pod.Driver
	pool         *remote.Pool
	key          remote.Key
	distribution *kubeadm.Distribution

	planes  []hostsetup.Host
	worker  hostsetup.Host
	cluster hostsetup.Cluster
}

func TestHostSetup(t *testing.T) {
	w := newWorld(t)
	lab.Step(t, "machines boot and are prepared", w.prepare)
	lab.Step(t, "the first becomes a control plane", w.initialise)
	lab.Step(t, "a worker joins", w.joinWorker)
	lab.Step(t, "the others join the control plane", w.joinControlPlane)
	lab.Step(t, "nodes are ready and pods run", w.runs)
	lab.Step(t, "all is well, and everything can be repeated", w.repeat)
	lab.Step(t, "what is stopped or changed is mended", w.mend)
	lab.Step(t, "certificates are renewed before they expire", w.renew)
	lab.Step(t, "a machine is the same node when it was started again", w.reboot)
	lab.Step(t, "a lost member leaves, as long as a majority is left", w.lose)
	lab.Step(t, "a host that is cleaned has nothing left", w.clean)
}

func newWorld(t *testing.T) *world {
	l := lab.New(t)
	w := &world{release: l.Release, version: l.Release.Versions()[0], node: l.Node(t, "host")}
	image, err := w.release.Image(release.ImageNode, w.version)
	if err != nil {
		t.Fatal(err)
	}
	w.node.LayImages(t, "node", image.Refs[0])
	w.node.Start(t, "server")
	w.node.AwaitNodeReady(t, w.node.Name)
	w.node.Kubectl(t, "create", "namespace", namespace)
	config, err := clientcmd.BuildConfigFromFlags("", w.node.Data.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = w.node.Dial
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w.driver = pod.New(client, clock.RealClock{}, pod.Config{Image: image.Refs[0], PullPolicy: corev1.PullNever})
	private, err := remote.GenerateKey("test")
	if err != nil {
		t.Fatal(err)
	}
	if w.key, err = remote.ParseKey(private); err != nil {
		t.Fatal(err)
	}
	w.pool = remote.NewPool(remote.Config{Dial: w.node.Dial})
	t.Cleanup(w.pool.Close)
	w.distribution = w.newDistribution(clock.RealClock{})
	return w
}

func (w *world) newDistribution(now clock.PassiveClock) *kubeadm.Distribution {
	log := slog.New(slog.DiscardHandler)
	return kubeadm.New(kubeadm.Config{
		Installer: hostsetup.New(hostsetup.Config{Release: w.release, Clock: now, Log: log}), Clock: now, Log: log,
	})
}

func (w *world) boot(ctx context.Context, name string) (hostsetup.Host, error) {
	spec := machine.Spec{
		Key: machine.Key{Namespace: namespace, Cluster: "dev", Name: name},
		CPU: resource.MustParse("2"), Memory: resource.MustParse("2Gi"), Disk: resource.MustParse("20Gi"),
		AuthorizedKeys: []string{w.key.Authorized()},
	}
	if _, err := w.driver.Create(ctx, spec); err != nil {
		return hostsetup.Host{}, err
	}
	for {
		found, err := w.driver.Get(ctx, spec.Key)
		if err != nil {
			return hostsetup.Host{}, err
		}
		if found.State == machine.StateRunning {
			host := remote.Host{Address: found.Address, Key: w.key, Trust: func(context.Context, string) error { return nil }}
			return hostsetup.Host{Client: w.pool.Client(host), Name: name, Address: found.Address}, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return hostsetup.Host{}, fmt.Errorf("machine %s is %s: %s", name, found.State, found.Message)
		}
	}
}

// all does something for all hosts at once.
func all(t *testing.T, hosts []hostsetup.Host, do func(hostsetup.Host) error) {
	t.Helper()
	var work sync.WaitGroup
	for _, host := range hosts {
		work.Go(func() {
			began := time.Now()
			if err := do(host); err != nil {
				t.Errorf("%s: %v", host.Name, err)
			}
			t.Logf("%s: %.1f s", host.Name, time.Since(began).Seconds())
		})
	}
	work.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (w *world) hosts() []hostsetup.Host { return append(slices.Clone(w.planes), w.worker) }

func (w *world) role(host hostsetup.Host) hostsetup.Role {
	if host.Name == w.worker.Name {
		return hostsetup.Worker
	}
	return hostsetup.ControlPlane
}

func (w *world) prepare(t *testing.T) {
	for _, name := range []string{"dev-control-plane-0", "dev-control-plane-1", "dev-control-plane-2", "dev-worker-0"} {
		host, err := w.boot(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "dev-worker-0" {
			host.Labels = map[string]string{"size": "small"}
			w.worker = host
			continue
		}
		w.planes = append(w.planes, host)
	}
	w.cluster = hostsetup.Cluster{
		Name: "dev", Version: w.version, Endpoint: w.planes[0].Address + ":6443", SANs: []string{"dev.example.com"}, HA: true,
		Network: hostsetup.Network{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: hostsetup.CNIPrismNET},
	}
	all(t, w.hosts(), func(host hostsetup.Host) error {
		return w.distribution.Prepare(t.Context(), host, w.cluster, w.role(host), nil)
	})
}

func (w *world) initialise(t *testing.T) {
	credentials, err := w.distribution.Init(t.Context(), w.planes[0], w.cluster)
	if err != nil {
		t.Fatalf("%v\n%s", err, w.journal(w.planes[0]))
	}
	w.cluster.CA = credentials.CA
	// What the platform puts into every such cluster.
	w.kubectlWith(t, podNetwork, "apply", "-f", "-")
}

const podNetwork = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "plasmacloud:pod-network"}
rules:
  - {apiGroups: [""], resources: [nodes, pods, namespaces], verbs: [get, list, watch]}
  - {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "plasmacloud:pod-network"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "plasmacloud:pod-network"}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}
`

func (w *world) joinWorker(t *testing.T) {
	token := strings.TrimSpace(w.do(t, w.planes[0], "kubeadm token create"))
	if err := w.distribution.JoinWorker(t.Context(), w.worker, w.cluster, token); err != nil {
		t.Fatalf("%v\n%s", err, w.journal(w.worker))
	}
}

func (w *world) joinControlPlane(t *testing.T) {
	for _, host := range w.planes[1:] {
		began := time.Now()
		if err := w.distribution.JoinControlPlane(t.Context(), host, w.planes[0], w.cluster, func() {}); err != nil {
			t.Fatalf("%v\n%s", err, w.journal(host))
		}
		t.Logf("%s: %.1f s", host.Name, time.Since(began).Seconds())
	}
}

const web = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeSelector: {size: small}
  containers:
    - name: web
      image: %s
      imagePullPolicy: Never
      command: [sh, -c, 'mkdir -p /srv && echo served > /srv/index.html && exec httpd -f -p 8080 -h /srv']
`

func (w *world) runs(t *testing.T) {
	w.kubectl(t, "wait", "node", "--all", "--for=condition=Ready", "--timeout=120s")
	w.kubectl(t, "wait", "pod", "-A", "--all", "--for=condition=Ready", "--timeout=180s")
	w.giveToolbox(t, w.worker)
	w.kubectlWith(t, fmt.Sprintf(web, lab.Toolbox), "apply", "-f", "-")
	w.kubectl(t, "expose", "pod", "web", "--port", "8080", "--type", "NodePort")
	w.kubectl(t, "wait", "pod", "web", "--for=condition=Ready", "--timeout=110s")
	w.answers(t)
	t.Log("\n" + w.kubectl(t, "get", "nodes,pods", "-A", "-o", "wide"))
}

// answers asks the pod from all control-plane machines, by its service's address and by a node port.
func (w *world) answers(t *testing.T) {
	t.Helper()
	service := strings.Fields(w.kubectl(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP} {.spec.ports[0].nodePort}"))
	for _, host := range w.planes {
		for _, target := range []string{service[0] + "/8080", w.worker.Address + "/" + service[1], host.Address + "/" + service[1]} {
			lab.Eventually(t, time.Minute, target+" answers "+host.Name, func() error {
				output, err := w.try(host, "timeout 5 bash -c 'exec 3<>/dev/tcp/"+target+`; printf "GET / HTTP/1.0\r\n\r\n" >&3; cat <&3'`)
				if err == nil && !strings.Contains(output, "served") {
					err = fmt.Errorf("it says %q", output)
				}
				return err
			})
		}
	}
}

func (w *world) giveToolbox(t *testing.T, host hostsetup.Host) {
	t.Helper()
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(w.release.Export(writer, lab.Toolbox)) }()
	archive, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Client.Upload(t.Context(), remote.Bytes("test", "/var/lib/plasmacloud/toolbox.tar", 0o600, archive)); err != nil {
		t.Fatal(err)
	}
	w.do(t, host, "ctr --namespace k8s.io images import --local /var/lib/plasmacloud/toolbox.tar && rm /var/lib/plasmacloud/toolbox.tar")
}

func (w *world) repeat(t *testing.T) {
	w.well(t)
	began := time.Now()
	all(t, w.hosts(), func(host hostsetup.Host) error {
		return w.distribution.Prepare(t.Context(), host, w.cluster, w.role(host), func(what string) {
			if strings.HasPrefix(what, "upload") {
				t.Errorf("%s: %s again", host.Name, what)
			}
		})
	})
	credentials, err := w.distribution.Init(t.Context(), w.planes[0], w.cluster)
	if err != nil || string(credentials.CA) != string(w.cluster.CA) {
		t.Errorf("init once more: other credentials, or %v", err)
	}
	if err := w.distribution.JoinControlPlane(t.Context(), w.planes[1], w.planes[0], w.cluster, func() {}); err != nil {
		t.Error(err)
	}
	if err := w.distribution.JoinWorker(t.Context(), w.worker, w.cluster, "abcdef.0123456789abcdef"); err != nil {
		t.Error(err)
	}
	t.Logf("everything once more took %.1f s", time.Since(began).Seconds())
	w.well(t)
}

// well checks that no host has anything to complain about.
func (w *world) well(t *testing.T) {
	t.Helper()
	for _, host := range w.hosts() {
		lab.Eventually(t, 2*time.Minute, host.Name+" is well", func() error {
			findings, err := w.distribution.Health(t.Context(), host, w.role(host))
			if err == nil && len(findings) > 0 {
				err = fmt.Errorf("%v", findings)
			}
			return err
		})
	}
}

func (w *world) mend(t *testing.T) {
	for _, fault := range []struct {
		host                   hostsetup.Host
		script, check, subject string
	}{
		{w.worker, "systemctl stop kubelet", kubeadm.CheckUnit, "kubelet.service"},
		{w.worker, "systemctl stop containerd", kubeadm.CheckUnit, "containerd.service"},
		{w.planes[1], "systemctl stop prismnet", kubeadm.CheckUnit, "prismnet.service"},
		{w.worker, "echo >>/var/lib/kubelet/config.yaml", kubeadm.CheckConfiguration, "/var/lib/kubelet/config.yaml"},
		{w.worker, "echo '#' >>/usr/local/lib/plasmacloud/containerd.toml", kubeadm.CheckConfiguration, "/usr/local/lib/plasmacloud/containerd.toml"},
		{w.planes[2], "rm /etc/kubernetes/manifests/kube-scheduler.yaml", kubeadm.CheckConfiguration, "/etc/kubernetes/manifests/kube-scheduler.yaml"},
	} {
		w.do(t, fault.host, fault.script)
		findings, err := w.distribution.Health(t.Context(), fault.host, w.role(fault.host))
		if err != nil {
			t.Fatalf("%s: %v", fault.script, err)
		}
		if !slices.ContainsFunc(findings, func(f hostsetup.Finding) bool {
			return f.Check == fault.check && f.Subject == fault.subject && f.Repairable
		}) {
			t.Fatalf("%s: found %v", fault.script, findings)
		}
		if err := w.distribution.Repair(t.Context(), fault.host, w.cluster, w.role(fault.host), findings); err != nil {
			t.Fatalf("%s: %v", fault.script, err)
		}
		lab.Eventually(t, 2*time.Minute, "it is well after "+fault.script, func() error {
			findings, err := w.distribution.Health(t.Context(), fault.host, w.role(fault.host))
			if err == nil && len(findings) > 0 {
				err = fmt.Errorf("%v", findings)
			}
			return err
		})
	}
	w.kubectl(t, "wait", "node", "--all", "--for=condition=Ready", "--timeout=120s")
	w.answers(t)
}

func (w *world) renew(t *testing.T) {
	host := w.planes[1]
	const certificate = "/etc/kubernetes/pki/apiserver.crt"
	before := w.do(t, host, "sha256sum "+certificate)
	later := w.newDistribution(testingclock.NewFakePassiveClock(time.Now().Add(320 * 24 * time.Hour)))
	findings, err := later.Health(t.Context(), host, hostsetup.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	about := map[string]bool{}
	for _, finding := range findings {
		about[finding.Subject] = finding.Check == kubeadm.CheckCertificates && finding.Repairable
	}
	for _, name := range []string{"pki/apiserver.crt", "pki/etcd/server.crt", "admin.conf", "controller-manager.conf"} {
		if !about[name] {
			t.Errorf("%s is not found to expire: %v", name, findings)
		}
	}
	if err := w.distribution.Repair(t.Context(), host, w.cluster, hostsetup.ControlPlane, findings); err != nil {
		t.Fatal(err)
	}
	if now := w.do(t, host, "sha256sum "+certificate); now == before {
		t.Error("the certificate was not renewed")
	}
	w.well(t)
}

func (w *world) reboot(t *testing.T) {
	host := w.planes[2]
	uid := w.kubectl(t, "get", "node", host.Name, "-o", "jsonpath={.metadata.uid}")
	boot := w.do(t, host, "systemctl show --property UserspaceTimestampMonotonic")
	container := w.node.Kubectl(t, "get", "pod", "-n", namespace, host.Name, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	ctr, err := w.release.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	kill := exec.Command(ctr, "--address", w.node.Data.ContainerdSocket(), "--namespace", "k8s.io",
		"tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(container, "containerd://"))
	if output, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("kill the machine: %v: %s", err, output)
	}
	lab.Eventually(t, 2*time.Minute, "the machine was started again", func() error {
		now, err := w.try(host, "systemctl show --property UserspaceTimestampMonotonic")
		if err == nil && now == boot {
			err = errors.New("it was not")
		}
		return err
	})
	w.well(t)
	if now := w.kubectl(t, "get", "node", host.Name, "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Error("it is another node")
	}
	w.kubectl(t, "wait", "node", "--all", "--for=condition=Ready", "--timeout=120s")
}

func (w *world) lose(t *testing.T) {
	lost := w.planes[2]
	if err := w.driver.Delete(t.Context(), machine.Key{Namespace: namespace, Cluster: "dev", Name: lost.Name}); err != nil {
		t.Fatal(err)
	}
	w.planes = w.planes[:2]
	lab.Eventually(t, 2*time.Minute, "the member is found to be lost", func() error {
		findings, err := w.distribution.Health(t.Context(), w.planes[0], hostsetup.ControlPlane)
		if err == nil && !slices.ContainsFunc(findings, func(f hostsetup.Finding) bool {
			return f.Check == kubeadm.CheckEtcd && f.Subject == lost.Name && !f.Repairable
		}) {
			err = fmt.Errorf("found %v", findings)
		}
		return err
	})
	// A second one that only sleeps: with it two of three would be gone, and the lost one must not be struck off.
	w.do(t, w.planes[1], "systemctl stop kubelet && pkill -STOP -x etcd")
	err := w.distribution.RemoveMember(t.Context(), w.planes[0], lost.Name)
	if err == nil {
		t.Error("a member was removed without a majority")
	}
	t.Logf("refused: %v", err)
	w.do(t, w.planes[1], "pkill -CONT -x etcd && systemctl start kubelet")
	lab.Eventually(t, 2*time.Minute, "the lost member leaves", func() error {
		return w.distribution.RemoveMember(t.Context(), w.planes[0], lost.Name)
	})
	if err := w.distribution.RemoveMember(t.Context(), w.planes[0], lost.Name); err != nil {
		t.Errorf("remove a member that is none: %v", err)
	}
	w.well(t)
	if output := w.kubectl(t, "get", "nodes", "-o", "name"); strings.Contains(output, lost.Name) {
		t.Errorf("its node is there still: %s", output)
	}
}

func (w *world) clean(t *testing.T) {
	for range 2 {
		if err := w.distribution.Clean(t.Context(), w.worker.Client); err != nil {
			t.Fatal(err)
		}
	}
	left := w.do(t, w.worker, "find /etc/kubernetes /var/lib/kubelet /var/lib/containerd /var/lib/plasmacloud /usr/local/lib/plasmacloud -type f 2>/dev/null; nft list tables; ip -o link | cut -d: -f2")
	for _, thing := range []string{"/", "kube-proxy", "prism"} {
		if strings.Contains(left, thing) {
			t.Errorf("left is %s", left)
			break
		}
	}
}

// do runs a script on a host, with the programs that were laid there.
func (w *world) do(t *testing.T, host hostsetup.Host, script string) string {
	t.Helper()
	output, err := w.try(host, script)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func (w *world) try(host hostsetup.Host, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	result, err := host.Client.Run(ctx, remote.Command{Step: "test", Args: []string{"sh", "-c", script}, Env: map[string]string{"PATH": hostsetup.Path}})
	return strings.TrimSpace(result.Stdout), err
}

func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return w.kubectlWith(t, "", args...)
}

func (w *world) kubectlWith(t *testing.T, input string, args ...string) string {
	t.Helper()
	result, err := w.planes[0].Client.Run(t.Context(), remote.Command{
		Step: "test", Args: append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...), Stdin: []byte(input),
		Env: map[string]string{"PATH": hostsetup.Path},
	})
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(result.Stdout)
}

func (w *world) journal(host hostsetup.Host) string {
	output, err := w.try(host, "journalctl --no-pager --lines=60 -u kubelet -u containerd -u prismnet; ctr -n k8s.io tasks ls")
	if err != nil {
		return err.Error()
	}
	return output
}
