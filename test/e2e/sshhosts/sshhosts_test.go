//go:build e2e

// Package sshhosts is the scenario of hosts that exist already, and that the platform knows by their address and key only:
// an account is made of them, they are leased for a cluster, which runs on them, and are given back clean. People work on
// them through the platform, which alone has the keys.
package sshhosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/pod"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const (
	project   = "default"
	namespace = "yard" // of the hosts, which the platform does not know of
	hostCount = 2
)

// yard is hosts that answer SSH.
type yard struct {
	host    *lab.Node
	pool    *remote.Pool
	key     []byte
	hosts   []remote.Host
	keyFile string
	known   string
}

func TestSSHHosts(t *testing.T) {
	l := lab.New(t)
	y := &yard{host: l.Node(t, "host"), keyFile: filepath.Join(l.Dir, "id"), known: filepath.Join(l.Dir, "known_hosts")}
	lab.Step(t, "up", func(t *testing.T) { y.host.Cloud(t, "up", "--data-dir", y.host.Data.Path()) })
	lab.Step(t, "hosts that answer SSH", func(t *testing.T) { y.build(t, l) })
	lab.Step(t, "an account of them", y.account)
	for _, kind := range []string{"kubeadm", "k3s"} {
		cluster := "on-" + kind
		if kind == "kubeadm" {
			lab.Step(t, kind+": hosts that cannot be used", func(t *testing.T) { y.broken(t, cluster, kind) })
		} else {
			lab.Step(t, kind+": a cluster is asked for", func(t *testing.T) { y.request(t, cluster, kind) })
		}
		lab.Step(t, kind+": a cluster on leased hosts", func(t *testing.T) { y.runs(t, cluster) })
		lab.Step(t, kind+": there is no host left", func(t *testing.T) { y.full(t, cluster) })
		lab.Step(t, kind+": people work on them through the platform", func(t *testing.T) { y.terminals(t, cluster) })
		lab.Step(t, kind+": hosts are given back clean", func(t *testing.T) { y.remove(t, cluster) })
	}
	lab.Step(t, "down", func(t *testing.T) { y.host.Cloud(t, "down", "--data-dir", y.host.Data.Path(), "--purge", "--yes") })
}

// build makes hosts with systemd and an SSH server. They are pods of the management cluster, which nobody tells it.
func (y *yard) build(t *testing.T, l *lab.Lab) {
	config, err := clientcmd.BuildConfigFromFlags("", y.host.Data.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = y.host.Dial
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	y.host.Kubectl(t, "create", "namespace", namespace)
	image, err := l.Release.Image(release.ImageNode, l.Release.Versions()[0])
	if err != nil {
		t.Fatal(err)
	}
	if y.key, err = remote.GenerateKey("yard"); err != nil {
		t.Fatal(err)
	}
	key, err := remote.ParseKey(y.key)
	if err != nil {
		t.Fatal(err)
	}
	y.pool = remote.NewPool(remote.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return y.host.Dial(ctx, network, address)
	}})
	t.Cleanup(y.pool.Close)
	driver := pod.New(client, clock.RealClock{}, pod.Config{Image: image.Refs[0], PullPolicy: corev1.PullNever})
	var known strings.Builder
	for i := range hostCount {
		hostKey, err := remote.GenerateKey("")
		if err != nil {
			t.Fatal(err)
		}
		public, err := sshkey.Public(hostKey)
		if err != nil {
			t.Fatal(err)
		}
		spec := machine.Spec{
			Key: machine.Key{Namespace: namespace, Cluster: "yard", Name: fmt.Sprintf("host-%d", i)},
			CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi"), Disk: resource.MustParse("20Gi"),
			AuthorizedKeys: []string{key.Authorized()}, HostKey: hostKey,
		}
		if _, err := driver.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, 2*time.Minute, "host "+spec.Key.Name+" runs", func() error {
			made, err := driver.Get(t.Context(), spec.Key)
			if err == nil && made.State != machine.StateRunning {
				err = fmt.Errorf("it is %s: %s", made.State, made.Message)
			}
			if err == nil {
				y.hosts = append(y.hosts, remote.Host{Address: made.Address, Key: key, HostKey: public})
				fmt.Fprintf(&known, "%s %s\n", made.Address, public)
			}
			return err
		})
	}
	if err := errors.Join(os.WriteFile(y.keyFile, y.key, 0o600), os.WriteFile(y.known, []byte(known.String()), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// account makes an account of the hosts, and a network that clusters take them from.
func (y *yard) account(t *testing.T) {
	args := []string{"account", "create", "yard", "--provider", "ssh", "--key-file", y.keyFile, "--known-hosts", y.known, "--wait"}
	for _, host := range y.hosts {
		args = append(args, "--host", "root@"+host.Address)
	}
	y.host.Cloud(t, args...)
	shown := y.host.Cloud(t, "account", "verify", "yard")
	for _, host := range y.hosts {
		if !strings.Contains(shown, host.Address) {
			t.Errorf("host %s is not in\n%s", host.Address, shown)
		}
	}
	y.host.Cloud(t, "vpc", "create", "metal", "--account", "yard", "--cidr", "10.9.0.0/16", "--wait")
	if content := y.host.Kubectl(t, "get", "secret", "yard-ssh-key", "-n", "project-"+project, "-o", "jsonpath={.type} {.metadata.ownerReferences[0].kind}"); content != "kubernetes.io/ssh-auth Account" {
		t.Errorf("the key is kept as %s", content)
	}
}

func (y *yard) request(t *testing.T, cluster, kind string) {
	t.Helper()
	y.host.Cloud(t, "k8s", "create", cluster, "--type", kind, "--vpc", "metal", "--control-plane-instance-type", "u1.medium",
		"--workers", "1", "--instance-type", "u1.medium")
}

func (y *yard) runs(t *testing.T, cluster string) {
	y.awaitRunning(t, cluster)
	tenant := y.host.Tenant(t, project, cluster)
	tenant.AwaitReady(t, hostCount)
	shown := y.host.Cloud(t, "account", "get", "yard")
	if got := strings.Count(shown, cluster+"-"); got != hostCount {
		t.Errorf("%d hosts are leased to %s:\n%s", got, cluster, shown)
	}
	addresses := tenant.Kubectl(t, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`)
	for _, host := range y.hosts {
		if !strings.Contains(addresses, host.Address) {
			t.Errorf("no node has the address %s: %s", host.Address, addresses)
		}
	}
	tenant.Kubectl(t, "create", "deployment", "hello", "--image=registry.k8s.io/pause", "--replicas=0")
}

// awaitRunning waits until a cluster does its job. What is laid onto hosts is much, and all of them are on one machine.
func (y *yard) awaitRunning(t *testing.T, cluster string) {
	t.Helper()
	lab.Eventually(t, 8*time.Minute, cluster+" runs", func() error {
		shown, err := y.host.TryCloud("k8s", "get", cluster)
		if err == nil && (!strings.Contains(shown, "RUNNING") || !strings.Contains(shown, "1/1")) {
			instances, _ := y.host.TryCloud("instance", "list", "--cluster", cluster, "-o", "yaml")
			err = fmt.Errorf("%s\n%s", shown, instances)
		}
		return err
	})
}

// full asks for a node more than there are hosts, and takes the wish back.
func (y *yard) full(t *testing.T, cluster string) {
	y.host.Cloud(t, "k8s", "scale", cluster, "--workers", "2")
	lab.Eventually(t, 2*time.Minute, "it is told that there is no host", func() error {
		shown := y.host.Cloud(t, "instance", "list", "--cluster", cluster, "-o", "yaml")
		if !strings.Contains(shown, fmt.Sprintf("of the %d hosts of account yard, %[1]d are leased", hostCount)) {
			return fmt.Errorf("instances:\n%s", shown)
		}
		return nil
	})
	y.host.Cloud(t, "k8s", "scale", cluster, "--workers", "1")
	y.awaitRunning(t, cluster)
}

func (y *yard) terminals(t *testing.T, cluster string) {
	names := strings.Fields(y.host.Cloud(t, "instance", "list", "--cluster", cluster, "-o", "name"))
	if len(names) != hostCount {
		t.Fatalf("instances %v", names)
	}
	for _, name := range names {
		name = name[strings.LastIndex(name, "/")+1:]
		if out := y.host.Cloud(t, "k8s", "ssh", cluster, name, "--", "sh", "-c", "id -un; cat /proc/sys/kernel/random/boot_id; exit 0"); !strings.Contains(out, "root\n") {
			t.Errorf("on %s: %s", name, out)
		}
		out, err := y.host.TryCloud("k8s", "ssh", cluster, name, "--", "sh", "-c", "exit 9")
		if err == nil || !strings.Contains(out, "exit code 9") {
			t.Errorf("%v: %s", err, out)
		}
		console, err := y.host.TryCloudWith(y.host.CloudConfig(), nil, "echo typed by $(id -un)\nexit\n", "instance", "console", name)
		if err != nil || !strings.Contains(console, "typed by root") {
			t.Errorf("%v: %s", err, console)
		}
		if shown := y.host.Cloud(t, "instance", "get", name); !strings.Contains(shown, "RUNNING") {
			t.Errorf("%s", shown)
		}
	}
	if told := y.host.Kubectl(t, "get", "events.events.k8s.io", "-n", "project-"+project, "-o", "jsonpath={.items[*].reason}"); !strings.Contains(told, "TerminalOpened") {
		t.Errorf("events: %s", told)
	}
}

// left finds what a cluster has left on a host, one thing a line. These hosts have their disk at the directories of
// programs, so that a mount counts only below one.
const left = `
for path in /etc/kubernetes /var/lib/kubelet /var/lib/etcd /var/lib/k8shost /run/k8shost /etc/k8shost /var/lib/plasmacloud /usr/local/lib/plasmacloud /etc/plasmacloud-lease /etc/cni/net.d /opt/cni/bin/prismnet; do
	[ ! -e "$path" ] || [ -d "$path" ] && [ -z "$(ls -A -I kept -I lost+found "$path")" ] || echo "$path"
done
ls /sys/class/net | grep -Ev '^(lo|eth0|erspan0|gre0|gretap0|ip6_vti0|ip6gre0|ip6tnl0|ip_vti0|sit0|tunl0)$'
nft list tables
ps -eo comm= | grep -E '^(kube|etcd|containerd|prismnet|k8shost)' | sort -u
grep -E ' /(var/lib/(kubelet|containerd|etcd)/|run/(containerd|netns))' /proc/self/mounts
systemctl list-units --all --plain --no-legend 'kube*' 'containerd*' 'k8shost*' 'prismnet*' 'plasmacloud*' | grep -v not-found | grep -v masked
true`

func (y *yard) remove(t *testing.T, cluster string) {
	y.host.Cloud(t, "k8s", "delete", cluster, "--yes")
	lab.Eventually(t, 5*time.Minute, cluster+" is gone", func() error {
		shown, err := y.host.TryCloud("k8s", "get", cluster)
		if err == nil {
			return fmt.Errorf("it is there:\n%s", shown)
		}
		return nil
	})
	lab.Eventually(t, time.Minute, "the hosts are free", func() error {
		shown := y.host.Cloud(t, "account", "get", "yard")
		if strings.Contains(shown, cluster+"-") {
			return fmt.Errorf("the account shows\n%s", shown)
		}
		return nil
	})
	for _, host := range y.hosts {
		result, err := y.pool.Client(host).RunIdempotent(t.Context(), remote.Command{Step: "look", Args: []string{"sh", "-c", left}})
		if err != nil {
			t.Fatal(err)
		}
		if things := strings.TrimSpace(result.Stdout); things != "" {
			t.Errorf("on host %s is left:\n%s", host.Address, things)
		}
	}
}
