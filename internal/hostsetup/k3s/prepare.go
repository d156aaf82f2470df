package k3s

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	checks "plasmacloud.io/plasmacloud/internal/k8shost/host"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

const stepPrepare = "prepare host"

// What hosts run, by what they are for.
var (
	nodePrograms   = []string{"k8shost", "prismnet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "loopback"}
	etcdPrograms   = []string{"etcd", "etcdutl"}
	sqlitePrograms = []string{"kine"}
)

// Prepare implements hostsetup.Distribution. The host is looked at first, with what it has; and then, with the launcher's
// own eyes, before anything is started.
func (d *Distribution) Prepare(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	if cluster.Network.CNI == hostsetup.CNINone && !d.upstream() {
		return &hostsetup.PreflightError{Host: host.String(), Findings: []hostsetup.Finding{{
			Check: "pod network", Message: "k8shost brings PrismNET along, and the cluster is to have no pod network",
			Remedy: "leave spec.clusterNetwork.cni as it is, use type Kubeadm, or give an upstream k3s",
		}}}
	}
	if err := d.install(ctx, host, cluster, role, progress); err != nil {
		return err
	}
	if err := d.check(ctx, host, role); err != nil {
		return err
	}
	if cluster.Firewall == nil {
		return nil
	}
	progress("install the firewall")
	return cluster.Firewall(ctx, host.Client, role)
}

// install gives the host its programs and images.
func (d *Distribution) install(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, progress func(string)) error {
	if err := d.Installer.Ready(ctx, host, cluster.Version, role, progress); err != nil {
		return err
	}
	if d.upstream() {
		return d.installUpstream(ctx, host, cluster, progress)
	}
	programs := slices.Clone(nodePrograms)
	switch {
	case role != hostsetup.ControlPlane:
	case cluster.HA:
		programs = append(programs, etcdPrograms...)
	default:
		programs = append(programs, sqlitePrograms...)
	}
	images := d.Installer.Release().Images(cluster.Version)
	if err := d.Installer.LayRelease(ctx, host, cluster.Version, programs, images, progress); err != nil {
		return err
	}
	return d.link(ctx, host)
}

// installUpstream lays k3s itself, where it is not on the host already, and the pod network, which k3s is not asked for.
func (d *Distribution) installUpstream(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, progress func(string)) error {
	file := d.Program.Path
	if path.IsAbs(file) {
		file = ""
	}
	if err := d.Installer.LayProgram(ctx, host, file, d.program(), d.Program.SHA256, progress); err != nil {
		return err
	}
	if cluster.Network.CNI != hostsetup.CNINone {
		if _, err := d.Installer.LayPrograms(ctx, host, cluster.Version, []string{"prismnet", "loopback"}, progress); err != nil {
			return err
		}
	}
	return d.link(ctx, host)
}

// link gives people the program by its name.
func (d *Distribution) link(ctx context.Context, host hostsetup.Host) error {
	const script = `PATH=$PATH:/usr/local/bin; command -v "$(basename "$1")" >/dev/null || ln -sf -- "$1" "/usr/local/bin/$(basename "$1")"`
	_, err := host.Client.RunIdempotent(ctx, remote.Command{Step: stepPrepare, Args: []string{"sh", "-c", script, "sh", d.program()}, Timeout: time.Minute})
	return err
}

// check lets the launcher judge the host, unless it runs there already.
func (d *Distribution) check(ctx context.Context, host hostsetup.Host, role hostsetup.Role) error {
	if d.upstream() {
		return nil
	}
	active, err := isActive(ctx, stepPrepare, host, kindOf(role).unit())
	if err != nil || active {
		return err
	}
	result, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: stepPrepare, Args: []string{d.program(), "check", "--data-dir", dataDir, "--output", "json"}, Timeout: time.Minute,
	})
	if _, judged := remote.ExitCode(err); err != nil && !judged {
		return err
	}
	var judgement struct {
		Findings []checks.Finding `json:"findings"`
	}
	if problem := json.Unmarshal([]byte(result.Stdout), &judgement); problem != nil {
		return errors.Join(err, fmt.Errorf("host %s: %s: read what k8shost check says: %w", host, stepPrepare, problem))
	}
	var findings []hostsetup.Finding
	for _, f := range judgement.Findings {
		if f.Level == checks.Missing {
			findings = append(findings, hostsetup.Finding{Check: f.Name, Subject: host.String(), Message: f.Name + ": " + f.What, Remedy: f.Remedy})
		}
	}
	if len(findings) > 0 {
		return &hostsetup.PreflightError{Host: host.String(), Findings: findings}
	}
	return nil
}

func isActive(ctx context.Context, step string, host hostsetup.Host, unit string) (bool, error) {
	_, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: step, Args: []string{"systemctl", "is-active", "--quiet", unit}, Timeout: 30 * time.Second,
	})
	if _, answered := remote.ExitCode(err); answered {
		return false, nil
	}
	return err == nil, err
}

// lay lays a small file.
func lay(ctx context.Context, step string, host hostsetup.Host, name string, mode fs.FileMode, content []byte) error {
	_, err := host.Client.Upload(ctx, remote.Bytes(step, name, mode, content))
	return err
}

func fileHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
