// Package k3s makes clusters of type K3s out of hosts: `k8shost server` and `k8shost agent` as services of systemd, a
// single server with SQLite, or several with etcd. Instead of k8shost an upstream k3s can be given, which is started with
// the same flags.
//
// A host has the part of the release that it needs in /usr/local/lib/plasmacloud, its settings in /etc/k8shost, and
// everything that changes in /var/lib/k8shost. The launcher does the rest: it makes certificates and renews them, forms
// the etcd cluster, restarts what dies. So what is here is mostly what is laid where, and when a service is restarted.
package k3s

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// Where things are on hosts.
const (
	programDir  = hostsetup.Root + "/k3s" // of an upstream program that we lay
	settingsDir = "/etc/k8shost"
	dataDir     = config.DefaultDataDir

	tokenFile      = settingsDir + "/token"
	kubeconfigFile = settingsDir + "/admin.kubeconfig"
	logFile        = dataDir + "/logs/k8shost.log"
	clusterToken   = dataDir + "/server/token"
)

// Program is an upstream k3s.
type Program struct {
	// Path where it is absolute is on the hosts, where it has to be already; otherwise in the release directory, from
	// where it is laid on them.
	Path string
	// SHA256 that the program has to have, in hexadecimal.
	SHA256 string
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate tells what is wrong with it.
func (p Program) Validate() error {
	switch {
	case p.Path == "" && p.SHA256 == "":
		return nil
	case p.Path == "" || path.Clean(p.Path) != p.Path || strings.HasPrefix(p.Path, "../") || p.Path == "..":
		return fmt.Errorf("k3s program: %q is neither a plain absolute path on the hosts nor one inside of the release directory", p.Path)
	case !hexDigest.MatchString(p.SHA256):
		return fmt.Errorf("k3s program %s: %q is no SHA-256: give its checksum in 64 hexadecimal digits", p.Path, p.SHA256)
	}
	return nil
}

// Config is what a Distribution works with.
type Config struct {
	// Installer gives hosts their programs and images.
	Installer *hostsetup.Installer
	// Program to start in place of k8shost; k8shost where it is empty.
	Program Program
}

// Distribution makes clusters of type K3s.
type Distribution struct{ Config }

var _ hostsetup.Distribution = (*Distribution)(nil)

// New returns a distribution.
func New(c Config) (*Distribution, error) {
	if c.Installer == nil {
		return nil, errors.New("hosts are given their programs by an installer, and there is none")
	}
	if err := c.Program.Validate(); err != nil {
		return nil, err
	}
	return &Distribution{Config: c}, nil
}

// upstream tells whether k3s is used in place of k8shost.
func (d *Distribution) upstream() bool { return d.Program.Path != "" }

// program is where the launcher is on hosts.
func (d *Distribution) program() string {
	switch {
	case !d.upstream():
		return hostsetup.ReleaseDir + "/bin/k8shost"
	case path.IsAbs(d.Program.Path):
		return d.Program.Path
	default:
		return programDir + "/k3s"
	}
}

// Init implements hostsetup.Distribution.
func (d *Distribution) Init(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster) (hostsetup.Credentials, error) {
	const step = "init"
	if err := d.serve(ctx, step, host, cluster, first); err != nil {
		return hostsetup.Credentials{}, err
	}
	content, err := host.Client.Download(ctx, step, kubeconfigFile, 1<<20)
	if err != nil {
		return hostsetup.Credentials{}, err
	}
	credentials, err := readKubeconfig(content)
	if err != nil {
		return credentials, fmt.Errorf("host %s: %s: read %s: %w", host, step, kubeconfigFile, err)
	}
	return credentials, nil
}

// JoinControlPlane implements hostsetup.Distribution. A server that runs has been admitted; nobody is told before.
func (d *Distribution) JoinControlPlane(ctx context.Context, host, first hostsetup.Host, cluster hostsetup.Cluster, _ func()) error {
	const step = "join control plane"
	begun, err := lastSettings(ctx, step, first, server)
	if err != nil {
		return err
	}
	if !cluster.HA || (begun != nil && !begun.highlyAvailable()) {
		return fmt.Errorf("host %s: %s: the cluster keeps its objects in SQLite, which a single server has to itself: make a new cluster with several", host, step)
	}
	// Whoever has it owns the cluster: it goes from server to server, and nowhere else.
	content, err := first.Client.Download(ctx, step, clusterToken, 1<<12)
	if err != nil {
		return err
	}
	if err := lay(ctx, step, host, tokenFile, 0o600, content); err != nil {
		return err
	}
	return d.serve(ctx, step, host, cluster, further)
}

// serve sees that a server runs on the host. One that runs already stays what it was in the beginning, with its datastore.
func (d *Distribution) serve(ctx context.Context, step string, host hostsetup.Host, cluster hostsetup.Cluster, at place) error {
	last, err := lastSettings(ctx, step, host, server)
	if err != nil {
		return err
	}
	if last != nil {
		at, cluster.HA = last.place(), last.highlyAvailable()
	}
	if err := d.run(ctx, step, host, server, d.serverSettings(host, cluster, at), false); err != nil {
		return err
	}
	return d.ensureNetwork(ctx, step, host, cluster)
}

// JoinWorker implements hostsetup.Distribution.
func (d *Distribution) JoinWorker(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, bootstrapToken string) error {
	const step = "join"
	full, err := d.agentToken(cluster, bootstrapToken)
	if err != nil {
		return fmt.Errorf("host %s: %s: %w", host, step, err)
	}
	if err := lay(ctx, step, host, tokenFile, 0o600, []byte(full+"\n")); err != nil {
		return err
	}
	if err := d.run(ctx, step, host, agent, d.agentSettings(host, cluster), false); err != nil {
		return err
	}
	return d.ensureNetwork(ctx, step, host, cluster)
}

// agentToken is a bootstrap token together with the hash of the authority, by which the agent knows its server.
func (d *Distribution) agentToken(cluster hostsetup.Cluster, text string) (string, error) {
	parsed, err := token.Parse(text)
	if err != nil {
		return "", err
	}
	if parsed.JoinsServers() {
		return "", errors.New("the token is not that of a worker: it looks like abcdef.0123456789abcdef")
	}
	hash, err := token.HashCA(cluster.CA)
	if err != nil {
		return "", err
	}
	if d.upstream() {
		hash = fileHash(cluster.CA) // k3s hashes the file as it is
	}
	return parsed.WithCA(hash).Format(), nil
}
