package hostsetup

import (
	"context"
	_ "embed"
	"strings"

	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

//go:embed script/system.sh
var systemScript string

// modules of the kernel that containers, pod networks and services need.
var modules = []string{"overlay", "br_netfilter", "nf_conntrack", "nf_tables", "nft_masq", "vxlan"}

// sysctls that nodes need. What a kernel does not know is left out.
var sysctls = []string{
	"net.ipv4.ip_forward=1",
	"net.ipv6.conf.all.forwarding=1",
	"net.bridge.bridge-nf-call-iptables=1",
	"net.bridge.bridge-nf-call-ip6tables=1",
	"fs.inotify.max_user_instances=8192",
	"fs.inotify.max_user_watches=524288",
}

// system loads modules, sets sysctls and switches swap off, now and at every start.
func (i *Installer) system(ctx context.Context, host Host, found survey) error {
	kind := "host"
	if found.container != "" {
		kind = "machine"
	}
	_, err := i.script(ctx, host.Client, StepSystem, systemScript, []byte(strings.Join(sysctls, "\n")+"\n"), append([]string{kind}, modules...)...)
	return err
}

// keep makes what is laid on a machine that is a pod last for as long as the machine: its root is new whenever its
// container is started again, but its disk is not.
func (i *Installer) keep(ctx context.Context, host Host, found survey) error {
	if !found.isMachine() {
		return nil
	}
	// One that was given back before has no program for it any more, and keeps changes ever since.
	_, err := host.Client.RunIdempotent(ctx, remote.Command{
		Step: StepSystem, Args: []string{"sh", "-c", `[ ! -x "$1" ] || exec "$@"`, "sh", ReleaseDir + "/bin/k8shost", "machine-init", "--keep"},
	})
	return err
}
