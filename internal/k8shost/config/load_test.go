package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plasmacloud.io/plasmacloud/internal/k8shost/config"
)

// newServer gives a server's configuration with its flags; the default file does not exist.
func newServer(t *testing.T) (*config.Server, *pflag.FlagSet) {
	t.Helper()
	s := &config.Server{}
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	s.AddFlags(fs)
	fs.Bool("help", false, "a flag of the command, which no file may set")
	if err := fs.Lookup("config").Value.Set(filepath.Join(t.TempDir(), "absent.yaml")); err != nil {
		t.Fatal(err)
	}
	return s, fs
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, args, environ []string) (*config.Server, error) {
	t.Helper()
	s, fs := newServer(t)
	if err := fs.Parse(args); err != nil {
		return nil, config.FlagError(fs, err)
	}
	return s, config.Load(fs, environ)
}

func TestDefaults(t *testing.T) {
	s, err := load(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.DataDir, s.ClusterCIDR, s.ServiceCIDR, s.ClusterDomain, s.HTTPSListenPort, s.BindAddress,
		s.ServiceNodePortRange.String(), s.Datastore, s.MaxPods, s.WebhookCacheTTL, s.EtcdSnapshotRetention, s.LogLevel, s.WriteKubeconfigMode)
	want := "/var/lib/k8shost10.42.0.0/16 10.43.0.0/16cluster.local6443 0.0.0.030000-32767etcd110 2m0s 5info384"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheCommandLinesOfTheHostingSpecification(t *testing.T) {
	for name, args := range map[string][]string{
		"single": {
			"--data-dir=/var/lib/k8shost", "--disable=servicelb,traefik,flannel", "--flannel-backend=none", "--disable-network-policy",
			"--cluster-domain=cluster.local", "--service-cidr=10.96.0.0/12", "--cluster-cidr=10.244.0.0/16",
			"--bind-address=0.0.0.0", "--advertise-address=192.168.1.100", "--tls-san=k8s-api.example.com",
		},
		"complete": {
			"--server", "https://k8s-api-lb.internal:6443", "--token", "secret", "--disable=servicelb,traefik,flannel,local-storage",
			"--flannel-backend=none", "--service-node-port-range=30000-32767", "--tls-san=k8s-api.example.com", "--tls-san=k8s-api-lb.example.com",
			"--authentication-token-webhook-cache-ttl=2m", "--kube-apiserver-arg=audit-log-path=/var/log/k8shost/audit.log",
			"--kube-apiserver-arg=audit-log-maxage=30", "--kube-apiserver-arg=feature-gates=A=true,B=false",
		},
		"restore": {"--cluster-reset", "--cluster-reset-restore-path=" + write(t, "backup", "data")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, args, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Complete(machine()); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := write(t, "config.yaml", `
data-dir: /from/file
cluster-domain: from.file
node-name: from-file
https-listen-port: 7443
`)
	environ := []string{"K8SHOST_CONFIG=" + file, "K8SHOST_DATA_DIR=/from/environment", "K8SHOST_CLUSTER_DOMAIN=from.environment", "K8SHOST_NODE_IP="}
	s, err := load(t, []string{"--data-dir=/from/flag"}, environ)
	if err != nil {
		t.Fatal(err)
	}
	if s.DataDir != "/from/flag" || s.ClusterDomain != "from.environment" || s.NodeName != "from-file" || s.HTTPSListenPort != 7443 || s.MaxPods != 110 {
		t.Errorf("%+v", s)
	}
}

func TestFileTakesEveryKindOfValue(t *testing.T) {
	file := write(t, "config.yaml", `# a comment
---
cluster-init: true
max-pods: 50
authentication-token-webhook-cache-ttl: 30s
cluster-cidr: 10.244.0.0/16
node-ip: "10.0.0.7"
write-kubeconfig-mode: 0644
service-node-port-range: 31000-31999
disable: servicelb,traefik
tls-san: &names [a.example.com, 10.0.0.8]
node-label:
  - zone=a
  - disk=ssd
kube-apiserver-arg: [ "feature-gates=A=true,B=false", v=2 ]
kubelet-arg: feature-gates=C=true,D=true
`)
	s, err := load(t, []string{"--config", file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.ClusterInit, s.MaxPods, s.WebhookCacheTTL, s.ClusterCIDR, s.NodeIP, uint32(s.WriteKubeconfigMode), s.ServiceNodePortRange.String(),
		s.Disable, s.TLSSANs, s.NodeLabels, s.KubeAPIServerArgs, s.KubeletArgs)
	want := fmt.Sprint(true, 50, 30*time.Second, "10.244.0.0/16", " 10.0.0.7 ", 0o644, "31000-31999",
		[]string{"servicelb", "traefik"}, []string{"a.example.com", "10.0.0.8"}, []string{"zone=a", "disk=ssd"},
		[]string{"feature-gates=A=true,B=false", "v=2"}, []string{"feature-gates=C=true,D=true"})
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEnvironmentListsAndAliases(t *testing.T) {
	s, err := load(t, nil, []string{
		"K8SHOST_URL=https://a:6443", "K8SHOST_TOKEN=t", "K8SHOST_TLS_SAN=a,b", "K8SHOST_KUBELET_ARG=feature-gates=A=true,B=true\nv=4\n",
		"K8SHOST_SERVICE_HOST=10.0.0.1", "K8SHOST_HELP=true", "NONSENSE",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.ServerURL != "https://a:6443" || s.Token.Reveal() != "t" || !slices.Equal(s.TLSSANs, []string{"a", "b"}) ||
		!slices.Equal(s.KubeletArgs, []string{"feature-gates=A=true,B=true", "v=4"}) {
		t.Errorf("%+v", s)
	}
	if _, err := load(t, nil, []string{"K8SHOST_URL=https://a", "K8SHOST_SERVER=https://b"}); err == nil || !strings.Contains(err.Error(), "K8SHOST_URL") {
		t.Errorf("two variables for one flag: %v", err)
	}
}

func TestFileErrorsNameFileLineAndKey(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"unknown key":       {"data-dir: /a\ntls-sans: b\n", `:2: unknown key "tls-sans"; did you mean tls-san?`},
		"underscore":        {"cluster_cidr: 10.0.0.0/8", `unknown key "cluster_cidr"; did you mean cluster-cidr?`},
		"nothing alike":     {"frobnicate: 1", `unknown key "frobnicate"`},
		"command's flag":    {"help: true", `unknown key "help"`},
		"config in config":  {"config: other.yaml", `key "config" has no place`},
		"twice":             {"max-pods: 1\nmax-pods: 2", `:2: key "max-pods" is in line 1 already`},
		"not a number":      {"max-pods: many", `:1: key "max-pods": "many" is not a whole number`},
		"not a boolean":     {"cluster-init: perhaps", `"perhaps" is not true or false`},
		"not a duration":    {"authentication-token-webhook-cache-ttl: 5", `is not a duration such as 2m`},
		"not an address":    {"node-ip: here", `key "node-ip": "here": `},
		"not a mode":        {"write-kubeconfig-mode: 999", `not an octal mode`},
		"not a choice":      {"datastore: sqllite", `must be one of etcd, sqlite; did you mean sqlite?`},
		"list for one":      {"token: [a, b]", `key "token" takes a single value`},
		"map":               {"tls-san: {a: b}", `key "tls-san" takes a value or a list of values`},
		"list in list":      {"tls-san: [[a]]", `takes a list of plain values`},
		"no value":          {"token:", `key "token" has no value`},
		"not YAML":          {"a: [", `parse --config`},
		"a list":            {"- a\n- b\n", "settings are written as"},
		"a word":            {"hello", "settings are written as"},
		"two documents":     {"max-pods: 1\n---\nmax-pods: 2\n", "only one YAML document"},
		"merge key":         {"<<: {max-pods: 1}", `unknown key "<<"`},
		"unterminated text": {"token: \"abc\n", "parse --config"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := write(t, "config.yaml", tt.content)
			_, err := load(t, []string{"--config", file}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestEmptyFilesAndAbsentFiles(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n", "{}\n"} {
		if _, err := load(t, []string{"--config", write(t, "config.yaml", content)}, nil); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := load(t, nil, nil); err != nil {
		t.Errorf("absent default file: %v", err)
	}
	if _, err := load(t, []string{"--config="}, nil); err != nil {
		t.Errorf("no file wanted: %v", err)
	}
	absent := filepath.Join(t.TempDir(), "absent.yaml")
	if _, err := load(t, []string{"--config", absent}, nil); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("absent named file: %v", err)
	}
	if _, err := load(t, nil, []string{"K8SHOST_CONFIG=" + t.TempDir()}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
}

func TestAllErrorsOfAllSourcesComeAtOnce(t *testing.T) {
	file := write(t, "config.yaml", "tls-sans: a\nmax-pods: x\n")
	_, err := load(t, []string{"--config", file}, []string{"K8SHOST_HTTPS_LISTEN_PORT=abc"})
	for _, want := range []string{`environment K8SHOST_HTTPS_LISTEN_PORT: "abc" is not a whole number`, `unknown key "tls-sans"`, `key "max-pods"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestCommandLineErrorsNameTheFlag(t *testing.T) {
	for arg, want := range map[string]string{
		"--clusterinit":           "unknown flag --clusterinit; did you mean --cluster-init?",
		"--frobnicate":            "unknown flag --frobnicate",
		"--https-listen-port=abc": `--https-listen-port: "abc" is not a whole number`,
		"--cluster-init=maybe":    `--cluster-init: "maybe" is not true or false`,
		"--log-level=loud":        `--log-level: "loud": must be one of debug, info, warn, error`,
		"--cluster-cidr=10.0.0.0": `--cluster-cidr: "10.0.0.0": `,
		"--token":                 "flag needs an argument: --token",
	} {
		if _, err := load(t, []string{arg}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", arg, err, want)
		}
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	s, err := load(t, []string{"--token=hunter2", "--datastore-endpoint=postgres://u:hunter2@h/d"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("start", "token", s.Token, "config", s)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "token", s.Token, "config", s)
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %s %s", *s, *s, *s, s.Token, s.Token, s.Token, encoded, logged.String())
	if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e74657232") {
		t.Errorf("the secret shows: %s", shown)
	}
	if !strings.Contains(shown, "[redacted]") || s.Token.Reveal() != "hunter2" {
		t.Error("the secret is lost")
	}
	_, fs := newServer(t)
	if err := fs.Parse([]string{"--token=hunter2"}); err != nil {
		t.Fatal(err)
	}
	if usage := fs.FlagUsages(); strings.Contains(usage, "hunter2") {
		t.Errorf("usage shows it: %s", usage)
	}
}
