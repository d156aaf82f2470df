package k3s

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	checks "plasmacloud.io/plasmacloud/internal/k8shost/host"
)

var update = flag.Bool("update", false, "write the golden files anew")

var upstream = Program{Path: "k3s/k3s", SHA256: strings.Repeat("ab", 32)}

func exampleHost() hostsetup.Host {
	return hostsetup.Host{
		Name: "dev-1", Address: "10.42.0.7", Labels: map[string]string{"tier": "front", "disk": "ssd"},
		Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}, KubeletArgs: []string{"system-reserved=memory=100Mi"},
	}
}

func exampleCluster(ha bool) hostsetup.Cluster {
	return hostsetup.Cluster{
		Name: "dev", Version: "v1.36.3", Endpoint: "192.0.2.10:30443", SANs: []string{"dev.example.com", "10.43.0.5"}, HA: ha,
		Network: hostsetup.Network{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12", Domain: "cluster.local", CNI: hostsetup.CNIPrismNET},
	}
}

// examples are the settings of every kind of service.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	rendered := map[string][]byte{}
	for name, program := range map[string]Program{"k8shost": {}, "k3s": upstream} {
		d := &Distribution{Config: Config{Program: program}}
		host := exampleHost()
		for kind, s := range map[string]settings{
			"single":  d.serverSettings(host, exampleCluster(false), first),
			"first":   d.serverSettings(host, exampleCluster(true), first),
			"further": d.serverSettings(host, exampleCluster(true), further),
			"agent":   d.agentSettings(host, exampleCluster(true)),
		} {
			content, err := s.render()
			if err != nil {
				t.Fatal(err)
			}
			rendered[name+"-"+kind] = content
		}
	}
	return rendered
}

func TestSettingsAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, content := range examples(t) {
		golden := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(golden, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != string(want) {
			t.Errorf("%s differs; -update writes it anew:\n%s", golden, content)
		}
	}
}

// load reads settings as k8shost does.
func load(t *testing.T, file string, flags interface{ AddFlags(*pflag.FlagSet) }) {
	t.Helper()
	set := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	flags.AddFlags(set)
	if err := set.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	if err := config.Load(set, nil); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

func TestK8shostTakesItsSettings(t *testing.T) {
	for name, content := range examples(t) {
		kind, ours := strings.CutPrefix(name, "k8shost-")
		if !ours {
			continue
		}
		dir := t.TempDir()
		file, token := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "token")
		content = bytes.ReplaceAll(content, []byte(tokenFile), []byte(token))
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.WriteFile(token, []byte("K10\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if kind == "agent" {
			agent := &config.Agent{}
			load(t, file, agent)
			if err := agent.Complete(checks.Identity{}); err != nil {
				t.Fatal(err)
			}
			if err := agent.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		server := &config.Server{}
		load(t, file, server)
		if err := server.Complete(checks.Identity{}); err != nil {
			t.Fatal(err)
		}
		if err := server.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wanted := config.EmbeddedEtcd
		if kind == "single" {
			wanted = config.SQLite
		}
		if server.DatastoreKind() != wanted {
			t.Errorf("%s keeps its objects in %s", name, server.DatastoreKind())
		}
	}
}

// k3sFlags are those of k3s v1.33, as its documentation lists them, that nodes can be given in a file.
const k3sFlags = `
advertise-address advertise-port agent-token agent-token-file airgap-extra-registry bind-address cluster-cidr cluster-dns
cluster-domain cluster-init cluster-reset cluster-reset-restore-path container-runtime-endpoint data-dir datastore-cafile
datastore-certfile datastore-endpoint datastore-keyfile debug default-local-storage-path disable disable-agent
disable-apiserver disable-cloud-controller disable-controller-manager disable-default-registry-endpoint disable-etcd
disable-helm-controller disable-kube-proxy disable-network-policy disable-scheduler docker egress-selector-mode
embedded-registry enable-pprof etcd-arg etcd-disable-snapshots etcd-expose-metrics etcd-s3 etcd-snapshot-compress
etcd-snapshot-dir etcd-snapshot-name etcd-snapshot-retention etcd-snapshot-schedule-cron flannel-backend flannel-conf
flannel-external-ip flannel-iface flannel-ipv6-masq helm-job-image https-listen-port kine-tls kube-apiserver-arg
kube-cloud-controller-manager-arg kube-controller-manager-arg kube-proxy-arg kube-scheduler-arg kubelet-arg lb-server-port
log node-external-dns node-external-ip node-internal-dns node-ip node-label node-name node-taint pause-image
prefer-bundled-bin private-registry protect-kernel-defaults resolv-conf rootless secrets-encryption selinux server
service-cidr service-node-port-range servicelb-namespace snapshotter supervisor-metrics system-default-registry tls-san
tls-san-security token token-file vpn-auth vpn-auth-file with-node-id write-kubeconfig write-kubeconfig-group
write-kubeconfig-mode`

func TestUpstreamIsGivenItsOwnFlagsOnly(t *testing.T) {
	known := strings.Fields(k3sFlags)
	for name, content := range examples(t) {
		if !strings.HasPrefix(name, "k3s-") {
			continue
		}
		var flags map[string]any
		if err := yaml.Unmarshal(content, &flags); err != nil {
			t.Fatal(err)
		}
		for flag := range flags {
			if !slices.Contains(known, flag) {
				t.Errorf("%s has %s, which k3s does not know", name, flag)
			}
		}
	}
}

func TestProgramsAreCheckedAndValid(t *testing.T) {
	for _, good := range []Program{{}, upstream, {Path: "/usr/local/bin/k3s", SHA256: upstream.SHA256}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []Program{
		{Path: "k3s"}, {SHA256: upstream.SHA256}, {Path: "../k3s", SHA256: upstream.SHA256}, {Path: "a/../../k3s", SHA256: upstream.SHA256},
		{Path: "/usr/../etc/k3s", SHA256: upstream.SHA256}, {Path: "k3s", SHA256: "ABCD"}, {Path: "k3s", SHA256: strings.ToUpper(upstream.SHA256)},
	} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
