package distro

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/machine"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/release"
)

const (
	machineRootStep    = "machine-root"
	machineOverlayStep = "layer-machine"

	// packagesRecord is the file in the machine root's entry that lists the packages in it.
	packagesRecord = "packages.json"

	// machineRepository is the machine image's name; its tag is the Kubernetes version.
	machineRepository = "plasmacloud.io/machine"

	// machineStopSignal is what systemd, as the first process, takes for being told to shut down.
	machineStopSignal = "SIGRTMIN+3"
)

// machineEnvironment tells systemd that it runs in a container.
var machineEnvironment = []string{"container=plasmacloud"}

// machineRoot plans Debian's part of the machine image. It is the same for all Kubernetes versions.
func (p *planner) machineRoot() {
	p.add(&step{
		name: machineRootStep, title: "machine root, Debian " + p.host.Suite, lane: lanePack,
		recipe: func(k *cache.Key) {
			k.Add("format", imageFormat, machine.RootFormat).Add("debian", p.host.Suite, p.host.Arch).Add("packages", machine.Packages...)
		},
		build: func(ctx context.Context, _ inputs, dir string) error {
			root := filepath.Join(dir, "root")
			if err := machine.BuildRoot(ctx, p.host, root); err != nil {
				return err
			}
			if err := recordPackages(root, filepath.Join(dir, packagesRecord)); err != nil {
				return err
			}
			if _, err := oci.StreamLayer(dir, func(w io.Writer) error { return debian.Pack(ctx, root, w) }); err != nil {
				return err
			}
			return os.RemoveAll(root)
		},
	})
}

func recordPackages(root, record string) error {
	packages, err := debian.ListInstalled(root)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(packages, "", "  ")
	if err != nil {
		return fmt.Errorf("record packages: %w", err)
	}
	return os.WriteFile(record, data, 0o644) //nolint:gosec // public
}

// proxyTools are the programs that kube-proxy runs, out of the machine root: nft for its nftables mode, and iptables
// for the mode that kubeadm chooses unless told otherwise.
func proxyTools(in inputs) ([]oci.Node, error) {
	programs := []string{
		"usr/sbin/nft", "usr/sbin/iptables", "usr/sbin/iptables-save", "usr/sbin/iptables-restore",
		"usr/sbin/ip6tables", "usr/sbin/ip6tables-save", "usr/sbin/ip6tables-restore",
	}
	plugins := []string{"usr/lib/*/xtables"}
	if in == nil {
		var planned []oci.Node
		for _, path := range append(programs, plugins...) {
			planned = append(planned, oci.Node{Path: path})
		}
		return planned, nil
	}
	layer, err := oci.ReadLayer(in.path(machineRootStep, "."))
	if err != nil {
		return nil, err
	}
	root, err := layer.Uncompressed()
	if err != nil {
		return nil, fmt.Errorf("read machine root: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read
	return debian.Closure(root, programs, plugins)
}

// machineOverlay plans the layer that all machine images have over Debian's: runtime, units and settings.
func (p *planner) machineOverlay() {
	from := map[string]string{
		"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "ctr": "containerd", "runc": "runc", "loopback": "cni",
	}
	p.layer(machineOverlayStep, "machine settings", []string{"containerd", "runc", "cni"}, func(in inputs) ([]oci.Node, error) {
		return machine.Overlay(func(name string) string { return in.path(from[name], name) })
	})
}

// machineImage plans the machine image of one Kubernetes version.
func (p *planner) machineImage(minor module.Minor) {
	list, kube := listStep(minor.Version), kubeLayer(minor.Version)
	p.add(&step{
		name: "machine-image-" + minor.Version, title: "machine image of " + minor.Version, lane: lanePack,
		needs: []string{list, machineRootStep, machineOverlayStep, kube},
		recipe: func(k *cache.Key) {
			settings, err := machine.Settings("")
			k.Fail(err)
			k.Add("format", imageFormat).Add("version", minor.Version)
			for _, node := range settings {
				k.Add("node", node.Path, string(node.Data))
			}
		},
		build: func(_ context.Context, in inputs, dir string) error {
			refs, err := readList(in[list])
			if err != nil {
				return err
			}
			nodes, err := machine.Settings(refs[release.ImagePause])
			if err != nil {
				return err
			}
			settings, err := oci.WriteLayer(dir, nodes)
			if err != nil {
				return err
			}
			layers, err := readLayers(in, machineRootStep, machineOverlayStep, kube)
			if err != nil {
				return err
			}
			return writeImages(dir, []oci.Image{{
				Name: release.ImageMachine, Kind: release.KindMachine, Version: minor.Version, Kubernetes: minor.Version,
				Refs: []string{machineRepository + ":" + minor.Version}, Layers: append(layers, settings),
				Cmd: []string{"/sbin/init"}, Env: machineEnvironment, StopSignal: machineStopSignal, Arch: runtime.GOARCH,
			}})
		},
		artifacts: imageArtifacts,
	})
}
