package k3s

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// kind is what a service is: a server, or an agent. Each has a unit and a file of settings of its own.
type kind string

const (
	server kind = "server"
	agent  kind = "agent"
)

func kindOf(role hostsetup.Role) kind {
	if role == hostsetup.ControlPlane {
		return server
	}
	return agent
}

func (k kind) unit() string     { return "k8shost-" + string(k) + ".service" }
func (k kind) unitFile() string { return unitDir + "/" + k.unit() }

// settingsFile of an agent is the one that a machine which boots as a node has, too.
func (k kind) settingsFile() string {
	if k == agent {
		return settingsDir + "/config.yaml"
	}
	return settingsDir + "/server.yaml"
}

const (
	unitDir     = hostsetup.UnitDir
	networkUnit = "k8shost-network.service" // PrismNET's daemon beside an upstream k3s
	laidFile    = settingsDir + "/laid.sha256"

	// startPatience is for a service to come up: a server that joins has etcd's data to copy.
	startPatience = 5 * time.Minute
)

// unit is the systemd unit of the launcher. Pods are no part of it: stopping it leaves them running.
func (d *Distribution) unit(k kind) []byte {
	// An upstream agent tells nobody that it is up.
	notify := "notify"
	if d.upstream() && k == agent {
		notify = "exec"
	}
	return fmt.Appendf(nil, `[Unit]
Description=Kubernetes by PlasmaCloud (%[1]s)
Documentation=https://plasmacloud.io
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=%[2]s
ExecStart=%[3]s %[1]s --config %[4]s
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
TasksMax=infinity
OOMScoreAdjust=-999
TimeoutStartSec=0
TimeoutStopSec=30s
Restart=always
RestartSec=2s
StandardOutput=append:%[5]s
StandardError=append:%[5]s

[Install]
WantedBy=multi-user.target
`, string(k), notify, d.program(), k.settingsFile(), logFile)
}

// networkDaemon is the systemd unit of PrismNET beside an upstream k3s. It speaks to the API as the node does.
func networkDaemon(host hostsetup.Host, podCIDR string) []byte {
	return fmt.Appendf(nil, `[Unit]
Description=PrismNET, the pod network of this node
Documentation=https://plasmacloud.io
StartLimitIntervalSec=0

[Service]
ExecStart=%[1]s/bin/prismnet daemon --kubeconfig %[2]s/agent/kubelet.kubeconfig --node-name %[3]s --cluster-cidr %[4]s --state-dir %[2]s/agent/network --cni-conf-dir %[5]s --cni-bin-dir %[6]s
Restart=always
RestartSec=2s

[Install]
WantedBy=multi-user.target
`, hostsetup.ReleaseDir, dataDir, host.Name, podCIDR, hostsetup.CNIConfDir, hostsetup.CNIBinDir)
}

//go:embed script/start.sh
var startScript string

// run lays a service with its settings, and sees that it runs with them. It is restarted where it was started with
// others, or where that is asked for.
func (d *Distribution) run(ctx context.Context, step string, host hostsetup.Host, k kind, s settings, restart bool) error {
	content, err := s.render()
	if err != nil {
		return err
	}
	program, err := d.programSum()
	if err != nil {
		return err
	}
	unit := d.unit(k)
	// The programs are not in it: they are large, and hosts are asked often how they are.
	list := fmt.Sprintf("%s  %s\n%s  %s\n", fileHash(content), k.settingsFile(), fileHash(unit), k.unitFile())
	for name, content := range map[string][]byte{k.settingsFile(): content, k.unitFile(): unit, laidFile: []byte(list)} {
		mode := fs.FileMode(0o600)
		if name == k.unitFile() {
			mode = 0o644
		}
		if err := lay(ctx, step, host, name, mode, content); err != nil {
			return err
		}
	}
	return start(ctx, step, host, k.unit(), fileHash([]byte(list+program)), restart)
}

// programSum is the checksum of the launcher.
func (d *Distribution) programSum() (string, error) {
	if d.upstream() {
		return d.Program.SHA256, nil
	}
	return d.Installer.Sum("k8shost")
}

// start sees that a unit runs. The digest names what it is to have been started with.
func start(ctx context.Context, step string, host hostsetup.Host, unit, digest string, restart bool) error {
	patience := strconv.Itoa(int(startPatience.Seconds()))
	_, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: step, Timeout: startPatience + 30*time.Second,
		Args: []string{"sh", "-c", startScript, "sh", unit, digest, logFile, patience, strconv.FormatBool(restart)},
	})
	if code, ok := remote.ExitCode(err); ok && code == notUp {
		return fmt.Errorf("%w; see %s there", err, logFile)
	}
	return err
}

// notUp is the exit code of the script where the service does not come up.
const notUp = 70

// ensureNetwork sees that PrismNET runs beside an upstream k3s.
func (d *Distribution) ensureNetwork(ctx context.Context, step string, host hostsetup.Host, cluster hostsetup.Cluster) error {
	if !d.upstream() || cluster.Network.CNI == hostsetup.CNINone {
		return nil
	}
	unit := networkDaemon(host, cluster.Network.PodCIDR)
	if err := lay(ctx, step, host, unitDir+"/"+networkUnit, 0o644, unit); err != nil {
		return err
	}
	return start(ctx, step, host, networkUnit, fileHash(unit), false)
}

// kubectl is a command of kubectl on a server, as the cluster's administrator.
func (d *Distribution) kubectl(args ...string) []string {
	return append([]string{d.program(), "kubectl", "--kubeconfig", kubeconfigFile}, args...)
}
