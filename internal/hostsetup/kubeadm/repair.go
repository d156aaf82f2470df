package kubeadm

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

var (
	//go:embed script/repair.sh
	repairScript string
	//go:embed script/restart.sh
	restartScript string
)

// Repair implements hostsetup.Distribution: what is laid is laid again, what is stopped is started, certificates are
// renewed, and what kubeadm has made is brought back where it is not as it was.
func (d *Distribution) Repair(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, findings []hostsetup.Finding) error {
	repairable := func(check string, about ...string) bool {
		return slices.ContainsFunc(findings, func(f hostsetup.Finding) bool {
			return f.Repairable && f.Check == check && (len(about) == 0 || slices.ContainsFunc(about, func(part string) bool { return strings.Contains(f.Subject, part) }))
		})
	}
	if !slices.ContainsFunc(findings, func(f hostsetup.Finding) bool { return f.Repairable }) {
		return nil
	}
	if err := d.Prepare(ctx, host, cluster, role, nil); err != nil {
		return err
	}
	var tasks []string
	if repairable(CheckConfiguration, "/var/lib/kubelet/", "/etc/kubernetes/") {
		tasks = append(tasks, "files")
	}
	if repairable(CheckCertificates) {
		tasks = append(tasks, "certificates")
	}
	if repairable(CheckCertificates, kubeletCertificate) {
		tasks = append(tasks, "kubelet-certificate")
	}
	if len(tasks) > 0 {
		if err := d.remake(ctx, host, cluster, role, tasks); err != nil {
			return err
		}
	}
	var units []string
	for _, finding := range findings {
		if finding.Check == CheckUnit && finding.Repairable {
			units = append(units, finding.Subject)
		}
	}
	if repairable(CheckConfiguration) || repairable(CheckCertificates) || repairable(CheckAPI) || repairable(CheckEtcd) {
		units = append(units, "kubelet.service")
	}
	slices.Sort(units)
	if _, err := d.script(ctx, host, stepRepair, restartScript, slices.Compact(units)...); err != nil {
		return err
	}
	return d.finish(ctx, host, stepRepair, cluster.CA, true)
}

// remake brings back what kubeadm has written, and has it renew certificates. A worker's are renewed by its kubelet.
func (d *Distribution) remake(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, role hostsetup.Role, tasks []string) error {
	config, err := bootstrap.KubeadmInit(describe(cluster), node(host), newToken(), "")
	if err != nil {
		return err
	}
	if _, err := host.Client.Upload(ctx, remote.Bytes(stepRepair, configFile, 0o600, config)); err != nil {
		return err
	}
	_, err = d.script(ctx, host, stepRepair, repairScript, append([]string{string(role), configFile, laidFile + ".tar"}, tasks...)...)
	return err
}
