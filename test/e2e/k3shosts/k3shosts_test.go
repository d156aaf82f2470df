//go:build e2e

// Package k3shosts is the scenario of what type K3s does on hosts, without the platform: machine pods that are known by
// address and key become servers and agents of clusters, single and with etcd; faults on them are found and repaired; a
// lost server leaves etcd, but not where that would cost the quorum; an upstream program takes k8shost's place; and
// cleaned hosts have nothing left.
package k3shosts

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/hostsetup/k3s"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/pod"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "hosts"

// fleet is a cluster whose pods are hosts.
type fleet struct {
	host    *lab.Node
	version string
	driver  *pod.Driver
	key     remote.Key
	pool    *remote.Pool
}

func TestK3sHosts(t *testing.T) {
	l := lab.New(t)
	f := &fleet{host: l.Node(t, "host"), version: l.Release.Versions()[0]}
	f.start(t)
	highlyAvailable(t, f, f.distribution(t, k3s.Program{}))
	single(t, f)
}

// start starts the cluster that hosts are pods of.
func (f *fleet) start(t *testing.T) {
	catalogue := f.host.Release()
	image, err := catalogue.Image(release.ImageNode, f.version)
	if err != nil {
		t.Fatal(err)
	}
	f.host.LayImages(t, "node", image.Refs[0])
	f.host.Start(t, "server")
	f.host.AwaitNodeReady(t, f.host.Name)
	f.host.Kubectl(t, "create", "namespace", namespace)
	config, err := clientcmd.BuildConfigFromFlags("", f.host.Data.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = f.host.Dial
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f.driver = pod.New(client, clock.RealClock{}, pod.Config{Image: image.Refs[0], PullPolicy: corev1.PullNever})
	private, err := remote.GenerateKey("test")
	if err != nil {
		t.Fatal(err)
	}
	if f.key, err = remote.ParseKey(private); err != nil {
		t.Fatal(err)
	}
	f.pool = remote.NewPool(remote.Config{Dial: f.host.Dial})
	t.Cleanup(f.pool.Close)
}

// distribution is what is tried.
func (f *fleet) distribution(t *testing.T, program k3s.Program) *k3s.Distribution {
	t.Helper()
	installer := hostsetup.New(hostsetup.Config{Release: f.host.Release(), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
	made, err := k3s.New(k3s.Config{Installer: installer, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// hosts makes machines, and waits until SSH answers there.
func (f *fleet) hosts(t *testing.T, names ...string) []hostsetup.Host {
	t.Helper()
	for _, name := range names {
		_, err := f.driver.Create(t.Context(), machine.Spec{
			Key: machine.Key{Namespace: namespace, Cluster: "c", Name: name}, AuthorizedKeys: []string{f.key.Authorized()},
			CPU: resource.MustParse("2"), Memory: resource.MustParse("3Gi"), Disk: resource.MustParse("10Gi"), OvercommittedMemory: true,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var hosts []hostsetup.Host
	for _, name := range names {
		var found *machine.Machine
		lab.Eventually(t, 2*time.Minute, name+" runs", func() (err error) {
			found, err = f.driver.Get(t.Context(), machine.Key{Namespace: namespace, Cluster: "c", Name: name})
			if err == nil && found.State != machine.StateRunning {
				err = fmt.Errorf("it is %s: %s", found.State, found.Message)
			}
			return err
		})
		var key string
		lab.Eventually(t, time.Minute, name+" has a host key", func() (err error) {
			key, err = f.host.TryKubectl("exec", "-n", namespace, pod.Name(found.Key), "--", "cat", "/var/lib/machine/ssh_host_ed25519_key.pub")
			return err
		})
		client := f.pool.Client(remote.Host{Address: found.Address, Key: f.key, HostKey: strings.Join(strings.Fields(key)[:2], " ")})
		hosts = append(hosts, hostsetup.Host{Client: client, Name: name, Address: found.Address})
	}
	return hosts
}

func (f *fleet) remove(t *testing.T, host hostsetup.Host) {
	t.Helper()
	if err := f.driver.Delete(t.Context(), machine.Key{Namespace: namespace, Cluster: "c", Name: host.Name}); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, time.Minute, host.Name+" is gone", func() error {
		_, err := f.driver.Get(t.Context(), machine.Key{Namespace: namespace, Cluster: "c", Name: host.Name})
		if !errors.Is(err, machine.ErrNotFound) {
			return fmt.Errorf("it is there, %w", err)
		}
		return nil
	})
}

func (f *fleet) cluster(endpoint string, ha bool) hostsetup.Cluster {
	return hostsetup.Cluster{
		Name: "c", Version: f.version, Endpoint: endpoint, HA: ha,
		Network: hostsetup.Network{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: hostsetup.CNIPrismNET},
	}
}

// on runs a command on a host.
func on(t *testing.T, host hostsetup.Host, args ...string) string {
	t.Helper()
	result, err := host.Client.RunIdempotent(t.Context(), remote.Command{Step: "test", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(result.Stdout)
}

func kubectl(t *testing.T, host hostsetup.Host, args ...string) string {
	t.Helper()
	return on(t, host, append([]string{"k8shost", "kubectl"}, args...)...)
}

// token makes one for a worker.
func token(t *testing.T, host hostsetup.Host) string {
	t.Helper()
	_, bare, _ := strings.Cut(on(t, host, "k8shost", "token", "create"), "::")
	return bare
}

func prepare(t *testing.T, d hostsetup.Distribution, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role) {
	t.Helper()
	began := time.Now()
	if err := d.Prepare(t.Context(), host, cluster, role, func(text string) { t.Log(text) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is prepared after %.1f s", host.Name, time.Since(began).Seconds())
}

// well waits until a host has nothing to complain of.
func well(t *testing.T, d hostsetup.Distribution, host hostsetup.Host, role hostsetup.Role) {
	t.Helper()
	lab.Eventually(t, 2*time.Minute, host.Name+" is well", func() error {
		findings, err := d.Health(t.Context(), host, role)
		if err == nil && len(findings) > 0 {
			err = fmt.Errorf("%v", findings)
		}
		return err
	})
}

func nodesReady(t *testing.T, via hostsetup.Host, names ...string) {
	t.Helper()
	for _, name := range names {
		lab.Eventually(t, 2*time.Minute, "node "+name+" is ready", func() error {
			state := kubectl(t, via, "get", "nodes", name, "--ignore-not-found", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			if state != "True" {
				return fmt.Errorf("it is %q", state)
			}
			return nil
		})
	}
}

func highlyAvailable(t *testing.T, f *fleet, d hostsetup.Distribution) {
	var hosts []hostsetup.Host
	var cluster hostsetup.Cluster
	lab.Step(t, "three servers and an agent", func(t *testing.T) {
		hosts = f.hosts(t, "s-1", "s-2", "s-3", "a-1")
		cluster = f.cluster(hosts[0].Address+":6443", true)
		for i, host := range hosts {
			role := hostsetup.ControlPlane
			if i == 3 {
				role = hostsetup.Worker
			}
			prepare(t, d, host, cluster, role)
		}
		made, err := d.Init(t.Context(), hosts[0], cluster)
		if err != nil {
			t.Fatal(err)
		}
		cluster.CA = made.CA
		for _, host := range hosts[1:3] {
			if err := d.JoinControlPlane(t.Context(), host, hosts[0], cluster, func() {}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.JoinWorker(t.Context(), hosts[3], cluster, token(t, hosts[0])); err != nil {
			t.Fatal(err)
		}
		nodesReady(t, hosts[0], "s-1", "s-2", "s-3", "a-1")
	})
	lab.Step(t, "everything may be repeated", func(t *testing.T) {
		before := on(t, hosts[1], "systemctl", "show", "--property", "MainPID", "k8shost-server.service")
		prepare(t, d, hosts[1], cluster, hostsetup.ControlPlane)
		again, err := d.Init(t.Context(), hosts[0], cluster)
		if err != nil || string(again.CA) != string(cluster.CA) {
			t.Errorf("Init again: another authority, or %v", err)
		}
		if err := d.JoinControlPlane(t.Context(), hosts[1], hosts[0], cluster, func() {}); err != nil {
			t.Error(err)
		}
		if after := on(t, hosts[1], "systemctl", "show", "--property", "MainPID", "k8shost-server.service"); after != before {
			t.Errorf("the server was restarted: %s, %s", before, after)
		}
	})
	lab.Step(t, "faults are found and repaired", func(t *testing.T) { faults(t, d, hosts, cluster) })
	lab.Step(t, "a lost server leaves etcd", func(t *testing.T) { loses(t, f, d, hosts) })
	lab.Step(t, "cleaned hosts have nothing left", func(t *testing.T) {
		for _, host := range []hostsetup.Host{hosts[0], hosts[3]} {
			if err := d.Clean(t.Context(), host.Client); err != nil {
				t.Error(err)
			}
			if err := d.Clean(t.Context(), host.Client); err != nil {
				t.Errorf("again: %v", err)
			}
		}
		f.remove(t, hosts[0])
		f.remove(t, hosts[3])
	})
}

// faults does to hosts what happens to hosts.
func faults(t *testing.T, d hostsetup.Distribution, hosts []hostsetup.Host, cluster hostsetup.Cluster) {
	for _, host := range hosts[:3] {
		well(t, d, host, hostsetup.ControlPlane)
	}
	well(t, d, hosts[3], hostsetup.Worker)
	for _, fault := range []struct {
		name  string
		host  hostsetup.Host
		role  hostsetup.Role
		check string
		wound string
	}{
		{"a stopped server", hosts[1], hostsetup.ControlPlane, k3s.CheckService, "systemctl stop k8shost-server"},
		{"changed settings", hosts[1], hostsetup.ControlPlane, k3s.CheckConfiguration, "echo max-pods: 3 >>/etc/k8shost/server.yaml"},
		{"a server whose settings and unit are gone", hosts[2], hostsetup.ControlPlane, k3s.CheckService, "systemctl stop k8shost-server; rm -r /etc/k8shost/* /etc/systemd/system/k8shost-server.service"},
		{"a stopped agent", hosts[3], hostsetup.Worker, k3s.CheckService, "systemctl stop k8shost-agent"},
		{"an agent whose settings are gone", hosts[3], hostsetup.Worker, k3s.CheckConfiguration, "rm -r /etc/k8shost/*"},
	} {
		on(t, fault.host, "sh", "-c", fault.wound)
		findings, err := d.Health(t.Context(), fault.host, fault.role)
		if err != nil || !slices.ContainsFunc(findings, func(f hostsetup.Finding) bool { return f.Check == fault.check && f.Repairable }) {
			t.Fatalf("%s is not found: %v, %v", fault.name, findings, err)
		}
		if err := d.Repair(t.Context(), fault.host, cluster, fault.role, findings); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		well(t, d, fault.host, fault.role)
	}
	nodesReady(t, hosts[0], "s-1", "s-2", "s-3", "a-1")
}

// loses removes a server from under the cluster, and would another.
func loses(t *testing.T, f *fleet, d hostsetup.Distribution, hosts []hostsetup.Host) {
	f.remove(t, hosts[2])
	lab.Eventually(t, 2*time.Minute, "the lost member is found", func() error {
		findings, err := d.Health(t.Context(), hosts[0], hostsetup.ControlPlane)
		if err == nil && !slices.ContainsFunc(findings, func(f hostsetup.Finding) bool {
			return f.Check == k3s.CheckEtcd && strings.HasPrefix(f.Subject, "s-3-")
		}) {
			err = fmt.Errorf("%v", findings)
		}
		return err
	})
	if err := d.RemoveMember(t.Context(), hosts[0], "s-2"); !errors.Is(err, hostsetup.ErrQuorum) {
		t.Errorf("to remove a living one of two: %v", err)
	}
	for range 2 {
		if err := d.RemoveMember(t.Context(), hosts[0], "s-3"); err != nil {
			t.Fatal(err)
		}
	}
	well(t, d, hosts[0], hostsetup.ControlPlane)
	kubectl(t, hosts[1], "delete", "node", "s-3")
	// The next one costs the quorum: the last goes on alone when it is told to.
	f.remove(t, hosts[1])
	if err := d.RemoveMember(t.Context(), hosts[0], "s-2"); err == nil {
		t.Error("a member was removed without a quorum")
	}
	survivor, ok := d.(hostsetup.Survivor)
	if !ok {
		t.Fatal("it cannot go on alone")
	}
	if err := survivor.Survive(t.Context(), hosts[0]); err != nil {
		t.Fatal(err)
	}
	well(t, d, hosts[0], hostsetup.ControlPlane)
	nodesReady(t, hosts[0], "s-1", "a-1")
}

// single is given a program by path and checksum, as an upstream k3s is. That none is to be had here, and that k8shost
// takes its flags, makes k8shost the program.
func single(t *testing.T, f *fleet) {
	var server hostsetup.Host
	var d hostsetup.Distribution
	lab.Step(t, "a single server, by a program given by path and checksum", func(t *testing.T) {
		server = f.hosts(t, "u-1")[0]
		cluster := f.cluster(server.Address+":6443", false)
		cluster.Network.CNI = hostsetup.CNINone // k8shost brings its own
		program := k3s.Program{Path: "/usr/local/lib/plasmacloud/release/bin/k8shost", SHA256: strings.Repeat("0", 64)}
		if err := f.distribution(t, program).Prepare(t.Context(), server, cluster, hostsetup.ControlPlane, nil); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("a program with another checksum: %v", err)
		}
		program.SHA256, _, _ = strings.Cut(on(t, server, "sha256sum", program.Path), " ")
		program.Path = "bin/k8shost"
		d = f.distribution(t, program)
		prepare(t, d, server, cluster, hostsetup.ControlPlane)
		// Where k3s has SQLite in it, k8shost asks for etcd.
		etcd, err := f.host.Release().Binary("etcd")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Client.UploadFile(t.Context(), etcd, remote.File{Step: "test", Path: "/usr/local/lib/plasmacloud/release/bin/etcd", Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Init(t.Context(), server, cluster); err != nil {
			t.Fatal(err)
		}
		if command := on(t, server, "sh", "-c", "cat /proc/$(systemctl show --property MainPID --value k8shost-server)/cmdline | tr '\\0' ' '"); !strings.HasPrefix(command, "/usr/local/lib/plasmacloud/k3s/k3s server ") {
			t.Errorf("what runs is %s", command)
		}
		nodesReady(t, server, "u-1")
	})
	lab.Step(t, "it is cleaned, too", func(t *testing.T) {
		if err := d.Clean(t.Context(), server.Client); err != nil {
			t.Error(err)
		}
		f.remove(t, server)
	})
}
