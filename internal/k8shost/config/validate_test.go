package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
)

func machine() host.Identity {
	return host.Identity{Hostname: "Node-A", Address: netip.MustParseAddr("192.168.1.100")}
}

func validate(t *testing.T, args ...string) (*config.Server, error) {
	t.Helper()
	s, err := load(t, args, nil)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if err := s.Complete(machine()); err != nil {
		t.Fatal(err)
	}
	return s, s.Validate()
}

func TestCompleteFillsInWhatTheHostTells(t *testing.T) {
	s, err := validate(t, "--data-dir=data", "--service-cidr=10.96.0.0/12", "--kubelet-arg=--image_gc=1")
	if err != nil {
		t.Fatal(err)
	}
	if s.NodeName != "node-a" || s.NodeIP.String() != "192.168.1.100" || s.AdvertiseAddress != s.NodeIP || s.ClusterDNS.String() != "10.96.0.10" {
		t.Errorf("%+v", s)
	}
	if !filepath.IsAbs(s.DataDir) || s.KubeletArgs[0] != "image-gc=1" {
		t.Errorf("data directory %s, kubelet arguments %v", s.DataDir, s.KubeletArgs)
	}
	bound, err := validate(t, "--bind-address=192.168.7.7", "--node-ip=192.168.1.5", "--cluster-dns=10.43.0.53")
	if err != nil {
		t.Fatal(err)
	}
	if bound.AdvertiseAddress.String() != "192.168.7.7" || bound.NodeIP.String() != "192.168.1.5" || bound.ClusterDNS.String() != "10.43.0.53" {
		t.Errorf("%+v", bound)
	}
}

func TestAcceptedServers(t *testing.T) {
	file := write(t, "file", "content")
	for _, args := range []string{
		"--cluster-init",
		"--cluster-init --token=secret",
		"--server=https://10.0.0.1:6443 --token=secret",
		"--server=https://10.0.0.1 --token-file=" + file,
		"--datastore=sqlite",
		"--datastore-endpoint=https://a:2379,https://b:2379 --datastore-cafile=" + file,
		"--datastore-endpoint=postgres://u:p@h:5432/d",
		"--datastore-endpoint=mysql://u:p@tcp(h:3306)/d --server=https://10.0.0.1:6443 --token=secret",
		"--cluster-reset --cluster-reset-restore-path=" + file,
		"--cluster-reset",
		"--disable-agent",
		"--disable=kube-proxy,coredns --cluster-dns=169.254.20.10",
		"--cluster-cidr=10.1.2.0/24 --service-cidr=10.1.3.0/28",
		"--service-node-port-range=20000-20100",
		"--node-label=node.kubernetes.io/x=y,topology.kubernetes.io/zone=a,plain=,example.com/a=b",
		"--node-taint=dedicated=gpu:NoSchedule --node-taint=x:NoExecute",
		"--etcd-snapshot-schedule-cron=@hourly --etcd-snapshot-retention=0",
		"--kubernetes-version=v1.35 --log-level=debug",
		"--kubernetes-version=1.36.3",
		"--tls-san=*.example.com,10.1.1.1,fd00::1,a",
		"--max-pods=500 --kube-controller-manager-arg=node-cidr-mask-size=23",
		"--kube-apiserver-arg=authorization-mode=Node,RBAC,Webhook",
		"--etcd-arg=quota-backend-bytes=8000000000 --kube-scheduler-arg=v=4",
		"--data-dir=/" + strings.Repeat("d", 65),
	} {
		if _, err := validate(t, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// refusal is a command line with one mistake, and what the complaint must say.
type refusal struct {
	args string
	want []string
}

func refused(t *testing.T, refusals []refusal) {
	t.Helper()
	for _, r := range refusals {
		t.Run(r.args, func(t *testing.T) {
			_, err := validate(t, splitArgs(r.args)...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range r.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret shows: %v", err)
			}
			if problems := strings.Count(err.Error(), "\n") + 1; problems > 1 {
				t.Errorf("one mistake, %d complaints: %v", problems, err)
			}
		})
	}
}

func TestRefusedJoins(t *testing.T) {
	file := write(t, "file", "content")
	empty := write(t, "empty", "")
	refused(t, []refusal{
		{"--cluster-init --server=https://a:6443 --token=t", []string{"--cluster-init", "--server"}},
		{"--server=https://a:6443", []string{"--server needs a token", "--token-file"}},
		{"--server=http://a:6443 --token=t", []string{"--server http://a:6443", "https://"}},
		{"--server=a:6443 --token=t", []string{"--server a:6443"}},
		{"--server=https://a:6443/apis --token=t", []string{"after the port"}},
		{"--server=https://u:hunter2@a:6443 --token=t", []string{"--server", "user name"}},
		{"--server=https://192.168.1.100:6443 --token=t", []string{"--server", "this server itself", "--cluster-init"}},
		{"--token=t --token-file=" + file, []string{"--token and --token-file"}},
		{"--token-file=" + empty, []string{"--token-file", "empty"}},
		{"--token-file=/nonexistent/token", []string{"--token-file", "no such file"}},
	})
}

func TestRefusedDatastores(t *testing.T) {
	file := write(t, "file", "content")
	refused(t, []refusal{
		{"--cluster-init --datastore=sqlite", []string{"--cluster-init and --datastore sqlite"}},
		{"--cluster-init --datastore-endpoint=https://a:2379", []string{"--cluster-init and --datastore-endpoint"}},
		{"--datastore=sqlite --server=https://a:6443 --token=t", []string{"--server and --datastore sqlite"}},
		{"--datastore=sqlite --datastore-endpoint=https://a:2379", []string{"--datastore sqlite and --datastore-endpoint"}},
		{"--datastore=sqlite --etcd-snapshot-schedule-cron=@hourly", []string{"--etcd-snapshot-schedule-cron and --datastore sqlite"}},
		{"--datastore=sqlite --etcd-arg=a=b", []string{"--etcd-arg and --datastore sqlite"}},
		{"--datastore-endpoint=redis://u:hunter2@h", []string{"--datastore-endpoint", "postgres://"}},
		{"--datastore-endpoint=sqlite:///x", []string{"--datastore sqlite"}},
		{"--datastore-endpoint=postgres://", []string{"--datastore-endpoint"}},
		{"--datastore-endpoint=https://a:2379,b:2379", []string{"--datastore-endpoint", "URL 2"}},
		{"--datastore-endpoint=https://u:hunter2@a:2379", []string{"--datastore-endpoint", "--datastore-certfile"}},
		{"--datastore-cafile=" + file, []string{"--datastore-cafile needs --datastore-endpoint"}},
		{"--datastore-endpoint=https://a:1 --datastore-certfile=" + file, []string{"--datastore-certfile and --datastore-keyfile"}},
		{"--datastore-endpoint=https://a:1 --datastore-cafile=/nonexistent", []string{"--datastore-cafile", "no such file"}},
		{"--etcd-snapshot-schedule-cron=sometimes", []string{"--etcd-snapshot-schedule-cron", "sometimes"}},
		{"--etcd-snapshot-retention=-1", []string{"--etcd-snapshot-retention"}},
	})
}

func TestRefusedResets(t *testing.T) {
	file := write(t, "file", "content")
	empty := write(t, "empty", "")
	refused(t, []refusal{
		{"--cluster-reset --server=https://a:6443 --token=t", []string{"--cluster-reset and --server"}},
		{"--cluster-reset --datastore=sqlite", []string{"--cluster-reset and --datastore sqlite"}},
		{"--cluster-reset-restore-path=" + file, []string{"--cluster-reset-restore-path needs --cluster-reset"}},
		{"--cluster-reset --cluster-reset-restore-path=/nonexistent", []string{"--cluster-reset-restore-path", "no such file"}},
		{"--cluster-reset --cluster-reset-restore-path=" + empty, []string{"--cluster-reset-restore-path", "empty"}},
		{"--cluster-reset --cluster-reset-restore-path=" + t.TempDir(), []string{"--cluster-reset-restore-path", "not a file"}},
	})
}

func TestRefusedRanges(t *testing.T) {
	refused(t, []refusal{
		{"--cluster-cidr=10.43.128.0/20", []string{"--cluster-cidr 10.43.128.0/20 and --service-cidr 10.43.0.0/16 overlap"}},
		{"--cluster-cidr=10.42.0.1/16", []string{"--cluster-cidr", "did you mean 10.42.0.0/16?"}},
		{"--cluster-cidr=10.42.0.0/25", []string{"--cluster-cidr", "too small"}},
		{"--cluster-cidr=8.0.0.0/7", []string{"--cluster-cidr", "too large"}},
		{"--cluster-cidr=fd00::/56", []string{"--cluster-cidr", "IPv4"}},
		{"--cluster-cidr=127.1.0.0/16", []string{"--cluster-cidr", "127.0.0.0/8"}},
		{"--cluster-cidr=", []string{"--cluster-cidr is empty"}},
		{"--service-cidr=10.43.0.0/29", []string{"--service-cidr", "/28"}},
		{"--service-cidr=16.0.0.0/8", []string{"--service-cidr", "/12"}},
		{"--cluster-cidr=192.168.0.0/16", []string{"--cluster-cidr", "--node-ip"}},
		{"--service-cidr=192.168.1.0/24", []string{"--service-cidr", "--node-ip"}},
		{"--cluster-dns=10.50.0.10", []string{"--cluster-dns", "--service-cidr"}},
		{"--cluster-dns=10.43.0.1", []string{"--cluster-dns", "10.43.0.10"}},
		{"--max-pods=300", []string{"--max-pods", "node-cidr-mask-size=23"}},
		{"--max-pods=0", []string{"--max-pods"}},
		{"--advertise-address=127.0.0.1", []string{"--advertise-address"}},
		{"--bind-address=127.0.0.1", []string{"--bind-address"}},
		{"--bind-address=fd00::5", []string{"--bind-address", "IPv4"}},
		{"--bind-address=", []string{"--bind-address is empty"}},
		{"--node-ip=0.0.0.0", []string{"--node-ip"}},
		{"--node-ip=fd00::5", []string{"--node-ip", "IPv4"}},
	})
}

func TestRefusedPorts(t *testing.T) {
	refused(t, []refusal{
		{"--https-listen-port=0", []string{"--https-listen-port"}},
		{"--https-listen-port=70000", []string{"--https-listen-port"}},
		{"--https-listen-port=10250", []string{"--https-listen-port 10250", "kubelet"}},
		{"--https-listen-port=2379", []string{"--https-listen-port 2379", "etcd"}},
		{"--https-listen-port=30443", []string{"--service-node-port-range", "30443", "--https-listen-port"}},
		{"--service-node-port-range=10000-11000", []string{"--service-node-port-range", "10250", "kubelet"}},
		{"--service-node-port-range=", []string{"--service-node-port-range"}},
	})
}

func TestRefusedNames(t *testing.T) {
	file := write(t, "file", "content")
	refused(t, []refusal{
		{"--node-name=Node_1", []string{`--node-name "Node_1"`}},
		{"--cluster-domain=-x", []string{"--cluster-domain"}},
		{"--tls-san=https://a:6443", []string{"--tls-san"}},
		{"--disable=traffik", []string{"--disable traffik", "did you mean traefik?"}},
		{"--flannel-backend=vxlan", []string{"--flannel-backend vxlan", "PrismNET"}},
		{"--kubernetes-version=latest", []string{"--kubernetes-version latest"}},
		{"--node-label=zone", []string{"--node-label zone", "key=value"}},
		{"--node-label=a b=c", []string{"--node-label"}},
		{"--node-label=node-role.kubernetes.io/worker=true", []string{"--node-label", "kubectl label"}},
		{"--node-taint=a=b", []string{"--node-taint a=b", "NoSchedule"}},
		{"--node-taint=a=b:Never", []string{"--node-taint a=b:Never"}},
		{"--data-dir=", []string{"--data-dir is empty"}},
		{"--data-dir=/" + strings.Repeat("d", 66), []string{"--data-dir", "at most 66"}},
		{"--data-dir=/a:b", []string{"--data-dir", "overlay"}},
		{"--data-dir=" + file, []string{"--data-dir", "not a directory"}},
		{"--authentication-token-webhook-config-file=" + file, []string{"--authentication-token-webhook-config-file"}},
		{"--authentication-token-webhook-config-file=/nonexistent", []string{"--authentication-token-webhook-config-file", "no such file"}},
		{"--authentication-token-webhook-cache-ttl=-1s", []string{"--authentication-token-webhook-cache-ttl"}},
		{"--audit-log-maxage=-1", []string{"--audit-log-maxage"}},
	})
}

func TestRefusedComponentArguments(t *testing.T) {
	refused(t, []refusal{
		{"--kube-apiserver-arg=etcd-servers=https://x:2379", []string{"--kube-apiserver-arg etcd-servers", "--datastore-endpoint"}},
		{"--kube-apiserver-arg=--etcd_servers=https://x:2379", []string{"--datastore-endpoint"}},
		{"--kube-apiserver-arg=tls-private-key-file=/x", []string{"--tls-san"}},
		{"--kube-apiserver-arg=authorization-mode=AlwaysAllow", []string{"authorization-mode=AlwaysAllow"}},
		{"--kube-apiserver-arg=authorization-mode=RBAC", []string{"Node and RBAC"}},
		{"--kube-apiserver-arg=profiling", []string{"--kube-apiserver-arg", "key=value"}},
		{"--kube-controller-manager-arg=cluster-cidr=10.0.0.0/8", []string{"--cluster-cidr"}},
		{"--kube-scheduler-arg=kubeconfig=/x", []string{"--kube-scheduler-arg kubeconfig", "leave it out"}},
		{"--kubelet-arg=root-dir=/x", []string{"--kubelet-arg root-dir", "--data-dir"}},
		{"--kube-proxy-arg=config=/x", []string{"--kube-proxy-arg config"}},
		{"--etcd-arg=data-dir=/x", []string{"--etcd-arg data-dir", "--data-dir"}},
		{"--disable=kube-proxy --kube-proxy-arg=v=2", []string{"--kube-proxy-arg and --disable kube-proxy"}},
		{"--disable-agent --kubelet-arg=v=2", []string{"--disable-agent and --kubelet-arg"}},
		{"--disable-agent --node-label=a=b", []string{"--disable-agent and --node-label"}},
	})
}

// splitArgs cuts before each flag, so that values may hold blanks.
func splitArgs(line string) []string {
	parts := strings.Split(line, " --")
	for i := range parts[1:] {
		parts[i+1] = "--" + parts[i+1]
	}
	return parts
}

func TestAllProblemsComeAtOnce(t *testing.T) {
	_, err := validate(t, "--cluster-init", "--datastore=sqlite", "--https-listen-port=0", "--disable=nope", "--node-taint=x", "--tls-san=!")
	for _, want := range []string{"--cluster-init", "--https-listen-port", "--disable nope", "--node-taint x", "--tls-san"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestAHostWithoutAnAddressNeedsNodeIP(t *testing.T) {
	s, err := load(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(host.Identity{Hostname: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "--node-ip is missing") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestWebhookFileOfTheHostingSpecification(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.crt", "client.crt", "client.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	webhook := write(t, "iam-webhook.yaml", `apiVersion: v1
kind: Config
clusters:
- name: iam-webhook
  cluster: {server: "https://iam-server:3000/apis/iam.plasmacloud.io/v1/authenticate", certificate-authority: `+dir+`/ca.crt}
users:
- name: k8s-apiserver
  user: {client-certificate: `+dir+`/client.crt, client-key: `+dir+`/client.key}
current-context: webhook
contexts:
- context: {cluster: iam-webhook, user: k8s-apiserver}
  name: webhook
`)
	if _, err := validate(t, "--authentication-token-webhook-config-file="+webhook); err != nil {
		t.Error(err)
	}
}

func TestDatastoreKinds(t *testing.T) {
	for args, want := range map[string]config.DatastoreKind{
		"--cluster-init":                               config.EmbeddedEtcd,
		"--datastore=sqlite":                           config.SQLite,
		"--datastore-endpoint=https://a:2379":          config.ExternalEtcd,
		"--datastore-endpoint=mysql://u:p@tcp(h:1)/db": config.ExternalSQL,
	} {
		s, err := validate(t, args)
		if err != nil || s.DatastoreKind() != want {
			t.Errorf("%s: %s, %v", args, s.DatastoreKind(), err)
		}
	}
}

func TestTokenAndTaintsAreRead(t *testing.T) {
	s, err := validate(t, "--token-file="+write(t, "token", "  K10abc::server:x\n"), "--node-taint=a=b:NoExecute")
	if err != nil {
		t.Fatal(err)
	}
	if token, err := s.ReadToken(); err != nil || token.Reveal() != "K10abc::server:x" {
		t.Errorf("token %q, %v", token.Reveal(), err)
	}
	taint, err := config.ParseTaint(s.NodeTaints[0])
	if err != nil || taint != (corev1.Taint{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute}) {
		t.Errorf("taint %+v, %v", taint, err)
	}
}

func TestAgent(t *testing.T) {
	check := func(environ []string, args ...string) error {
		a := &config.Agent{}
		fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		a.AddFlags(fs)
		if err := fs.Parse(append(args, "--config=")); err != nil {
			return config.FlagError(fs, err)
		}
		if err := config.Load(fs, environ); err != nil {
			return err
		}
		if err := a.Complete(machine()); err != nil {
			return err
		}
		return a.Validate()
	}
	if err := check([]string{"K8SHOST_URL=https://10.0.0.1:6443", "K8SHOST_TOKEN=t", "K8SHOST_CLUSTER_INIT=true"}, "--node-label=a=b"); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct{ arg, want string }{
		{"--max-pods=10", "--server is missing"},
		{"--server=https://10.0.0.1:6443", "--server needs a token"},
		{"--cluster-init", "unknown flag --cluster-init"},
		{"--lb-server-port=10250", "--lb-server-port 10250"},
		{"--lb-server-port=0", "--lb-server-port 0"},
	} {
		if err := check(nil, tt.arg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.arg, err)
		}
	}
	// One that has joined is known.
	dir := datadir.New(t.TempDir())
	if err := dir.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.JoinedCluster(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(nil, "--server=https://10.0.0.1:6443", "--data-dir="+dir.Path()); err != nil {
		t.Error(err)
	}
}
