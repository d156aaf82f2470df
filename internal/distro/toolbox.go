package distro

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/oci"
	"plasmacloud.io/plasmacloud/internal/distro/tool"
	"plasmacloud.io/plasmacloud/internal/release"
)

// toolboxRef is the name of the toolbox image.
const toolboxRef = "plasmacloud.io/toolbox:latest"

const busyboxPackage = "busybox-static"

// toolbox plans a small image with a shell and the usual network tools, for looking around in a cluster and for tests.
func (p *planner) toolbox() {
	p.add(&step{
		name: "toolbox", title: "toolbox image", lane: lanePack,
		recipe: func(k *cache.Key) {
			k.Add("format", imageFormat).Add("package", busyboxPackage, runtime.GOARCH)
			for _, node := range toolboxNodes("busybox", nil) {
				k.Add("node", node.Path, node.Link, string(node.Data))
			}
		},
		build:     buildToolbox,
		artifacts: imageArtifacts,
	})
}

func buildToolbox(ctx context.Context, _ inputs, dir string) error {
	work := filepath.Join(dir, "work")
	unpacked, err := debian.Unpack(ctx, busyboxPackage, work)
	if err != nil {
		return err
	}
	busybox := filepath.Join(unpacked.Dir, "bin", "busybox")
	if _, err := os.Stat(busybox); err != nil { // since the merge of /bin into /usr
		busybox = filepath.Join(unpacked.Dir, "usr", "bin", "busybox")
	}
	applets, err := tool.Run(ctx, tool.Call{Name: busybox, Args: []string{"--list"}})
	if err != nil {
		return fmt.Errorf("list busybox' programs: %w", err)
	}
	layer, err := oci.WriteLayer(dir, toolboxNodes(busybox, strings.Fields(string(applets))))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return writeImages(dir, []oci.Image{{
		Name: release.ImageToolbox, Kind: release.KindImage, Version: unpacked.Version, Refs: []string{toolboxRef},
		Layers: []*oci.Layer{layer}, Cmd: []string{"/bin/sh"}, Arch: runtime.GOARCH,
	}})
}

func toolboxNodes(busybox string, applets []string) []oci.Node {
	nodes := []oci.Node{
		{Path: "bin/busybox", Source: busybox},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{Path: "etc/nsswitch.conf", Mode: 0o644, Data: []byte("hosts: files dns\n")},
		{Path: "root", Mode: 0o700, Dir: true},
		{Path: "tmp", Mode: 0o1777, Dir: true},
		{Path: "usr/bin", Dir: true},
		{Path: "usr/bin/env", Link: "../../bin/busybox"},
	}
	for _, applet := range applets {
		if applet != "busybox" && applet != "env" {
			nodes = append(nodes, oci.Node{Path: "bin/" + applet, Link: "busybox"})
		}
	}
	return nodes
}
