package machine

import (
	"embed"
	"path"
	"slices"

	"plasmacloud.io/plasmacloud/internal/distro/oci"
)

//go:embed node
var nodeFiles embed.FS

// releaseDir is where an installed release lies.
const releaseDir = "usr/local/lib/plasmacloud/release"

// NodeCommand is what a node boots with: our own program prepares the machine and becomes its init.
var NodeCommand = []string{"/" + releaseDir + "/bin/k8shost", "machine-init", "/sbin/init"}

// replaced are the units of a machine that a node does not start: k8shost does their work, all but the last, and what
// the last one does is done before init starts.
var replaced = []string{"containerd.service", "kubelet.service", "preload-images.service", "machine-setup.service"}

// unneeded are units of Debian's that do nothing for a machine that is made anew at every start, and take their time.
var unneeded = []string{
	"apparmor.service", "kmod-static-nodes.service", "ldconfig.service", "modprobe@.service",
	"nftables.service", "rc-local.service", "systemd-ask-password-console.path", "systemd-ask-password-wall.path",
	"systemd-boot-system-token.service", "systemd-fsck-root.service", "systemd-journal-catalog-update.service",
	"systemd-journal-flush.service", "systemd-machine-id-commit.service", "systemd-network-generator.service",
	"systemd-pcrmachine.service", "systemd-pcrphase-sysinit.service", "systemd-pcrphase.service", "systemd-pstore.service",
	"systemd-random-seed.service", "systemd-remount-fs.service", "systemd-repart.service", "systemd-sysusers.service",
	"systemd-tmpfiles-setup-dev.service", "systemd-update-done.service", "systemd-update-utmp-runlevel.service",
	"systemd-update-utmp.service", "systemd-user-sessions.service", "tmp.mount",
}

// Node is what lies over a machine's files in a node. The release is the part of a release that it needs, by the path
// in the release directory.
func Node(release []oci.Node) ([]oci.Node, error) {
	var nodes []oci.Node
	err := walk(nodeFiles, "node", func(name string, data []byte) error {
		nodes = append(nodes, oci.Node{Path: name, Mode: 0o644, Data: data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, unit := range slices.Concat(replaced, unneeded) {
		if !slices.Contains(masked, unit) {
			nodes = append(nodes, oci.Node{Path: "etc/systemd/system/" + unit, Link: "/dev/null"})
		}
	}
	nodes = append(nodes,
		oci.Node{Path: "etc/systemd/system/multi-user.target.wants/k8shost-agent.service", Link: "/etc/systemd/system/k8shost-agent.service"},
		oci.Node{Path: "etc/k8shost", Mode: 0o700, Dir: true},
		oci.Node{Path: "usr/local/bin/k8shost", Link: "/" + releaseDir + "/bin/k8shost"},
		oci.Node{Path: "var/lib/k8shost", Mode: 0o700, Dir: true},
		oci.Node{Path: "var/lib/machine", Mode: 0o700, Dir: true},
	)
	for _, node := range release {
		node.Path = path.Join(releaseDir, node.Path)
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// Own are our own programs in a node, which bin tells where they are.
func Own(bin func(name string) string) []oci.Node {
	var nodes []oci.Node
	for _, name := range []string{"k8shost", "prismnet"} {
		nodes = append(nodes, oci.Node{Path: path.Join(releaseDir, "bin", name), Source: bin(name)})
	}
	return nodes
}
