package config

import (
	"slices"
	"strings"
	"unicode"
)

// Args are flags handed through to a component, each as key=value. They win over the
// launcher's own.
type Args []string

// Get gives the last value of a key.
func (a Args) Get(key string) (string, bool) {
	for _, arg := range slices.Backward(a) {
		if k, value := splitArg(arg); k == key {
			return value, true
		}
	}
	return "", false
}

// Flags gives a component's command line: the launcher's own key=value pairs, each unless these args have the same key,
// and then these args.
func (a Args) Flags(own ...string) []string {
	var flags []string
	for _, arg := range own {
		key, _ := splitArg(arg)
		if _, replaced := a.Get(key); !replaced {
			flags = append(flags, "--"+arg)
		}
	}
	for _, arg := range a {
		key, value := splitArg(arg)
		flags = append(flags, "--"+key+"="+value)
	}
	return flags
}

// normalize takes away the dashes that people write before a key, and the underscores in it
// that components take for dashes.
func (a Args) normalize() {
	for i, arg := range a {
		if key, value := splitArg(arg); strings.Contains(arg, "=") {
			a[i] = key + "=" + value
		}
	}
}

func splitArg(arg string) (key, value string) {
	key, value, _ = strings.Cut(arg, "=")
	return strings.ReplaceAll(strings.TrimLeft(key, "-"), "_", "-"), value
}

func (p *problems) args(flag string, args Args, owned map[string]string) {
	for _, arg := range args {
		key, _ := splitArg(arg)
		switch remedy, taken := owned[key]; {
		case !strings.Contains(arg, "=") || key == "":
			p.add("--%s %q: write it as key=value", flag, arg)
		case strings.ContainsFunc(arg, unicode.IsControl):
			p.add("--%s %s: the value holds control characters: remove them", flag, key)
		case taken && strings.HasPrefix(remedy, "--"):
			p.add("--%s %s: k8shost sets this itself: use %s", flag, key, remedy)
		case taken:
			p.add("--%s %s: k8shost sets this itself: %s; leave it out", flag, key, remedy)
		}
	}
}

const (
	ownsCertificates = "it makes and renews the certificates in the data directory"
	ownsIdentity     = "components get identities of their own"
	ownsEtcd         = "it forms the etcd cluster"
	ownsProbe        = "it watches the component's health there"
)

// The flags of each component that belong to the launcher, with the flag to use instead or
// the reason. What is not named here may be set, for better or worse.

func ownedByAPIServer() map[string]string {
	return map[string]string{
		"advertise-address":                           "--advertise-address",
		"authentication-token-webhook-cache-ttl":      "--authentication-token-webhook-cache-ttl",
		"authentication-token-webhook-config-file":    "--authentication-token-webhook-config-file",
		"bind-address":                                "--bind-address",
		"cert-dir":                                    ownsCertificates,
		"client-ca-file":                              ownsCertificates,
		"enable-bootstrap-token-auth":                 "nodes join with bootstrap tokens",
		"encryption-provider-config-automatic-reload": "`k8shost secrets-encrypt` relies on it",
		"encryption-provider-config":                  "secrets are encrypted with keys in the data directory",
		"etcd-cafile":                                 "--datastore-cafile",
		"etcd-certfile":                               "--datastore-certfile",
		"etcd-keyfile":                                "--datastore-keyfile",
		"etcd-servers":                                "--datastore-endpoint",
		"kubelet-certificate-authority":               ownsCertificates,
		"kubelet-client-certificate":                  ownsCertificates,
		"kubelet-client-key":                          ownsCertificates,
		"proxy-client-cert-file":                      ownsCertificates,
		"proxy-client-key-file":                       ownsCertificates,
		"requestheader-client-ca-file":                ownsCertificates,
		"secure-port":                                 "--https-listen-port",
		"service-account-key-file":                    ownsCertificates,
		"service-account-signing-key-file":            ownsCertificates,
		"service-cluster-ip-range":                    "--service-cidr",
		"service-node-port-range":                     "--service-node-port-range",
		"storage-backend":                             "--datastore",
		"tls-cert-file":                               "--tls-san",
		"tls-private-key-file":                        "--tls-san",
	}
}

func ownedByControllerManager() map[string]string {
	return map[string]string{
		"allocate-node-cidrs":              "PrismNET takes its ranges from the nodes",
		"authentication-kubeconfig":        ownsIdentity,
		"authorization-kubeconfig":         ownsIdentity,
		"client-ca-file":                   ownsCertificates,
		"cluster-cidr":                     "--cluster-cidr",
		"cluster-signing-cert-file":        ownsCertificates,
		"cluster-signing-key-file":         ownsCertificates,
		"kubeconfig":                       ownsIdentity,
		"root-ca-file":                     ownsCertificates,
		"secure-port":                      ownsProbe,
		"service-account-private-key-file": ownsCertificates,
		"service-cluster-ip-range":         "--service-cidr",
	}
}

func ownedByScheduler() map[string]string {
	return map[string]string{
		"authentication-kubeconfig": ownsIdentity,
		"authorization-kubeconfig":  ownsIdentity,
		"client-ca-file":            ownsCertificates,
		"kubeconfig":                ownsIdentity,
		"secure-port":               ownsProbe,
	}
}

func ownedByKubelet() map[string]string {
	return map[string]string{
		"bootstrap-kubeconfig":       ownsIdentity,
		"cert-dir":                   ownsCertificates,
		"cgroup-driver":              "it suits the host and containerd",
		"cgroup-root":                "it makes a cgroup for the node",
		"client-ca-file":             ownsCertificates,
		"cluster-dns":                "--cluster-dns",
		"cluster-domain":             "--cluster-domain",
		"config":                     "it writes kubelet's configuration",
		"container-runtime-endpoint": "it runs containerd",
		"hostname-override":          "--node-name",
		"kubeconfig":                 ownsIdentity,
		"max-pods":                   "--max-pods",
		"node-ip":                    "--node-ip",
		"node-labels":                "--node-label",
		"register-with-taints":       "--node-taint",
		"root-dir":                   "--data-dir",
		"tls-cert-file":              ownsCertificates,
		"tls-private-key-file":       ownsCertificates,
	}
}

func ownedByProxy() map[string]string {
	return map[string]string{
		"cluster-cidr":      "--cluster-cidr",
		"config":            "it writes kube-proxy's configuration",
		"hostname-override": "--node-name",
		"kubeconfig":        ownsIdentity,
		"master":            ownsIdentity,
	}
}

func ownedByEtcd() map[string]string {
	return map[string]string{
		"advertise-client-urls":       ownsEtcd,
		"cert-file":                   ownsCertificates,
		"client-cert-auth":            ownsCertificates,
		"config-file":                 "it writes etcd's configuration",
		"data-dir":                    "--data-dir",
		"force-new-cluster":           "--cluster-reset",
		"initial-advertise-peer-urls": ownsEtcd,
		"initial-cluster":             ownsEtcd,
		"initial-cluster-state":       ownsEtcd,
		"initial-cluster-token":       ownsEtcd,
		"key-file":                    ownsCertificates,
		"listen-client-urls":          ownsEtcd,
		"listen-peer-urls":            ownsEtcd,
		"name":                        "--node-name",
		"peer-cert-file":              ownsCertificates,
		"peer-client-cert-auth":       ownsCertificates,
		"peer-key-file":               ownsCertificates,
		"peer-trusted-ca-file":        ownsCertificates,
		"trusted-ca-file":             ownsCertificates,
		"wal-dir":                     "--data-dir",
	}
}

// authorization refuses what would lock nodes out or let everybody in.
func (p *problems) authorization(args Args) {
	value, ok := args.Get("authorization-mode")
	if !ok {
		return
	}
	modes := strings.Split(value, ",")
	if slices.Contains(modes, "AlwaysAllow") || !slices.Contains(modes, "Node") || !slices.Contains(modes, "RBAC") {
		p.add("--kube-apiserver-arg authorization-mode=%s: it must hold Node and RBAC, and not AlwaysAllow", value)
	}
}
