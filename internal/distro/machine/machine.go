// Package machine is the recipe of the machine image: a Debian root with systemd and sshd, a container runtime, and
// the kubelet and kubeadm of one Kubernetes version. It boots as a privileged pod's image and as a virtual machine's
// root. The files that are laid over Debian's are in files/; those in node/ make it a node that starts by itself.
package machine

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
)

//go:embed files
var files embed.FS

// Packages are what the root is made of, besides what every Debian has.
var Packages = []string{
	"ca-certificates", "conntrack", "dbus", "e2fsprogs", "ethtool", "iproute2", "iptables", "iputils-ping", "kmod", "mount",
	"nftables", "openssh-server", "procps", "socat", "systemd", "systemd-sysv", "util-linux",
}

// RootFormat is part of the root's recipe: it changes when the code that makes the root does.
const RootFormat = "1"

// masked are units that a machine inside of a pod must not start: they would act on the host's devices, sysctls and
// terminals, or wait for hardware that is not there.
var masked = []string{
	"apt-daily-upgrade.timer", "apt-daily.timer", "console-getty.service", "dev-hugepages.mount", "dpkg-db-backup.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target", "getty@.service", "proc-sys-fs-binfmt_misc.automount",
	"serial-getty@.service", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
	"sys-kernel-tracing.mount", "systemd-binfmt.service", "systemd-firstboot.service", "systemd-hwdb-update.service",
	"systemd-logind.service", "systemd-modules-load.service", "systemd-networkd.service", "systemd-networkd.socket",
	"systemd-resolved.service", "systemd-sysctl.service", "systemd-timesyncd.service", "systemd-udev-settle.service",
	"systemd-udev-trigger.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service",
}

// enabled are units that start at boot, by the target that wants them.
var enabled = map[string]string{
	"machine-setup.service":  "sysinit.target",
	"containerd.service":     "multi-user.target",
	"preload-images.service": "multi-user.target",
	"kubelet.service":        "multi-user.target",
}

// BuildRoot makes Debian's part of the image in dir.
func BuildRoot(ctx context.Context, host debian.Host, dir string) error {
	if err := debian.Bootstrap(ctx, host, Packages, dir); err != nil {
		return err
	}
	if err := debian.Slim(dir); err != nil {
		return err
	}
	return clean(dir)
}

// clean removes what makes one machine that machine: keys, names and identifiers are made at its first boot.
func clean(dir string) error {
	keys, err := filepath.Glob(filepath.Join(dir, "etc/ssh/ssh_host_*"))
	if err != nil {
		return fmt.Errorf("clean machine root: %w", err)
	}
	for _, path := range append(keys, filepath.Join(dir, "var/lib/dbus/machine-id"), filepath.Join(dir, "etc/hostname"), filepath.Join(dir, "etc/resolv.conf")) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean machine root: %w", err)
		}
	}
	for _, name := range []string{"etc/machine-id", "etc/.updated", "var/.updated"} { // .updated: nothing to do at first boot
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil { //nolint:gosec // as systemd writes it
			return fmt.Errorf("clean machine root: %w", err)
		}
	}
	return nil
}

// Overlay is what lies over Debian's files in every machine: units, masks and settings. The programs come from bin,
// which tells where each of them is.
func Overlay(bin func(name string) string) ([]oci.Node, error) {
	var nodes []oci.Node
	err := walk(files, "files", func(name string, data []byte) error {
		if !strings.Contains(name, "/") {
			return nil // a template
		}
		mode := int64(0o644)
		if bytes.HasPrefix(data, []byte("#!")) {
			mode = 0o755
		}
		nodes = append(nodes, oci.Node{Path: name, Mode: mode, Data: data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, unit := range masked {
		nodes = append(nodes, oci.Node{Path: "etc/systemd/system/" + unit, Link: "/dev/null"})
	}
	for _, unit := range slices.Sorted(maps.Keys(enabled)) {
		target := enabled[unit]
		nodes = append(nodes, oci.Node{Path: "etc/systemd/system/" + target + ".wants/" + unit, Link: "/etc/systemd/system/" + unit})
	}
	nodes = append(nodes,
		oci.Node{Path: "etc/systemd/system/default.target", Link: "/lib/systemd/system/multi-user.target"},
		oci.Node{Path: "etc/systemd/system/tmp.mount", Link: "/usr/share/systemd/tmp.mount"},
		oci.Node{Path: "etc/systemd/system/local-fs.target.wants/tmp.mount", Link: "/usr/share/systemd/tmp.mount"},
		oci.Node{Path: "etc/cni/net.d", Dir: true},
		oci.Node{Path: "etc/kubernetes/manifests", Mode: 0o700, Dir: true},
		oci.Node{Path: "var/lib/plasmacloud/images", Dir: true},
	)
	for _, name := range programs {
		nodes = append(nodes, oci.Node{Path: ProgramPath(name), Source: bin(name)})
	}
	return nodes, nil
}

// programs are the container runtime's, which are in every machine.
var programs = []string{"containerd", "containerd-shim-runc-v2", "ctr", "loopback", "runc"}

// ProgramPath is where one of the container runtime's programs lies in a machine.
func ProgramPath(name string) string {
	if name == "loopback" { // a plugin, and where runtimes look for those
		return "opt/cni/bin/" + name
	}
	return "usr/local/bin/" + name
}

// Settings is what lies over that in the machines of one Kubernetes version: the runtime's configuration, which names
// the version's sandbox image.
func Settings(sandbox string) ([]oci.Node, error) {
	text, err := files.ReadFile("files/containerd.toml")
	if err != nil {
		return nil, fmt.Errorf("read containerd's configuration: %w", err)
	}
	parsed, err := template.New("containerd.toml").Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("read containerd's configuration: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, struct{ Sandbox string }{sandbox}); err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	return []oci.Node{{Path: "etc/containerd/config.toml", Mode: 0o644, Data: out.Bytes()}}, nil
}

func walk(tree fs.FS, root string, visit func(name string, data []byte) error) error {
	return fs.WalkDir(tree, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		return visit(strings.TrimPrefix(path, root+"/"), data)
	})
}
