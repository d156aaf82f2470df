// Package kubeadm makes clusters of type Kubeadm out of hosts, with the kubeadm of the release. It renders kubeadm's
// configuration, runs `kubeadm init` and `kubeadm join`, and keeps what they made well: units, static pods,
// certificates, members of etcd. PrismNET's daemon is a unit beside the kubelet, and acts as its node.
//
// Whether a host is a part of its cluster already is written down on it (doneFile), as the last thing that is done. An
// init that was interrupted is run again over what there is, so that nothing is lost; a join that was interrupted begins
// anew after a reset.
package kubeadm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Steps, as errors name them.
const (
	stepInit         = "kubeadm init"
	stepJoin         = "kubeadm join"
	stepJoinPlane    = "kubeadm join control plane"
	stepNetwork      = "pod network"
	stepFirewall     = "security group"
	stepHealth       = "health"
	stepRepair       = "repair"
	stepRemoveMember = "remove etcd member"
	stepClean        = "clean host"
)

// Where things are on a host.
const (
	workDir       = hostsetup.StateDir + "/kubeadm"
	configFile    = workDir + "/config.yaml"
	discoveryFile = workDir + "/cluster.yaml"
	// doneFile says that the host is a part of the cluster whose authority has the hash in it.
	doneFile = workDir + "/done"
	// laidFile lists the checksums of what must not change.
	laidFile = workDir + "/laid"

	kubernetesDir = "/etc/kubernetes"
	networkDir    = hostsetup.StateDir + "/network"
)

// Config is what a Distribution works with.
type Config struct {
	Installer *hostsetup.Installer
	Clock     clock.PassiveClock
	Log       *slog.Logger
	// Patience is how long one run of kubeadm may take (10 min); it has patience of its own, which is shorter.
	Patience time.Duration
}

// Distribution makes clusters with kubeadm.
type Distribution struct {
	installer *hostsetup.Installer
	clock     clock.PassiveClock
	log       *slog.Logger
	patience  time.Duration
}

var _ hostsetup.Distribution = (*Distribution)(nil)

// New returns a distribution that installs from the installer's release.
func New(config Config) *Distribution {
	return &Distribution{
		installer: config.Installer, clock: config.Clock, log: config.Log, patience: cmp.Or(config.Patience, 10*time.Minute),
	}
}

// Prepare implements hostsetup.Distribution.
func (d *Distribution) Prepare(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	wanted := hostsetup.Wanted{Version: cluster.Version, Role: role}
	if cluster.Network.CNI == hostsetup.CNIPrismNET {
		unit, err := renderNetwork(host, cluster)
		if err != nil {
			return err
		}
		wanted.Programs, wanted.Files = []string{"prismnet"}, map[string][]byte{hostsetup.UnitDir + "/" + networkService: unit}
	}
	if err := d.installer.Prerequisites(ctx, host, wanted, progress); err != nil {
		return err
	}
	return d.firewall(ctx, host, cluster, role)
}

// firewall installs the cluster's security group.
func (d *Distribution) firewall(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role) error {
	if cluster.Firewall == nil {
		return nil
	}
	if err := cluster.Firewall(ctx, host.Client, role); err != nil {
		return fmt.Errorf("host %s: %s: %w", host, stepFirewall, err)
	}
	return nil
}

// run runs kubeadm with a configuration, which holds secrets and is gone afterwards, and other files beside it.
func (d *Distribution) run(ctx context.Context, host hostsetup.Host, step string, config []byte, beside map[string][]byte, args ...string) error {
	files := map[string][]byte{path.Base(configFile): config}
	maps.Copy(files, beside)
	bundle, err := hostsetup.Bundle(files)
	if err != nil {
		return err
	}
	_, err = host.Client.RunIdempotent(ctx, remote.Command{
		Step: step, Timeout: d.patience, Env: map[string]string{"PATH": hostsetup.Path}, Stdin: bundle,
		Args:   append([]string{"sh", "-c", runScript, "sh", workDir, configFile, hostsetup.BinDir + "/kubeadm"}, args...),
		Output: d.tell(host, step),
	})
	return hostsetup.DiskFull(host.Client, step, err)
}

// runScript unpacks files for root's eyes alone, and runs a command with a configuration that is removed then.
const runScript = `set -u
dir=$1 config=$2
shift 2
umask 077
mkdir -p -- "$dir" && tar -xf - -C "$dir" || exit
"$@" --config "$config"
code=$?
rm -f -- "$config"
exit "$code"`

// script runs a script of this package.
func (d *Distribution) script(ctx context.Context, host hostsetup.Host, step, script string, args ...string) (string, error) {
	return d.feed(ctx, host, step, script, nil, args...)
}

func (d *Distribution) feed(ctx context.Context, host hostsetup.Host, step, script string, stdin []byte, args ...string) (string, error) {
	result, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: step, Args: append([]string{"sh", "-c", script, "sh"}, args...), Stdin: stdin, Env: map[string]string{"PATH": hostsetup.Path},
	})
	return result.Stdout, hostsetup.DiskFull(host.Client, step, err)
}

func (d *Distribution) tell(host hostsetup.Host, step string) func(remote.Line) {
	return func(line remote.Line) {
		d.log.Debug("a host says", "line", line.Text, "host", host.String(), "step", step)
	}
}

// node describes the host to kubeadm.
func node(host hostsetup.Host) bootstrap.KubeadmNode {
	return bootstrap.KubeadmNode{
		Name: host.Name, Address: host.Address, Socket: hostsetup.Socket,
		Labels: host.Labels, Taints: host.Taints, KubeletArgs: host.KubeletArgs,
	}
}

// describe describes the cluster to kubeadm.
func describe(cluster hostsetup.Cluster) bootstrap.KubeadmCluster {
	return bootstrap.KubeadmCluster{
		Name: cluster.Name, Version: cluster.Version, Endpoint: cluster.Endpoint, SANs: cluster.SANs,
		PodCIDR: cluster.Network.PodCIDR, ServiceCIDR: cluster.Network.ServiceCIDR, Domain: cluster.Network.Domain,
	}
}

// newToken makes a bootstrap token.
func newToken() string {
	text := strings.ToLower(rand.Text())
	return text[:6] + "." + text[6:22]
}

// newCertificateKey makes a key that certificates can be sealed with.
func newCertificateKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	return hex.EncodeToString(key)
}
