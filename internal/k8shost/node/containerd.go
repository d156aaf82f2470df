package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"text/template"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/host"
	"plasmacloud.io/plasmacloud/internal/release"

	_ "embed"
)

//go:embed containerd.toml.tmpl
var containerdTemplate string

type containerdSettings struct {
	Root, State, Socket   string
	Runc, SandboxImage    string
	CNIBin, CNIConf       string
	SystemdCgroup         bool
	RestrictOOMScoreAdj   bool
	RegistryConfiguration string
}

// Containerd returns the container runtime. Pods outlive it: their shims are no children of it.
func (n *Node) Containerd() (*component.Process, error) {
	binary, err := n.Release.Binary("containerd")
	if err != nil {
		return nil, err
	}
	configFile := filepath.Join(n.Dir.Containerd(), "config.toml")
	return n.process(component.Spec{
		Name: "containerd", Path: binary, Args: []string{"--config", configFile},
		Env:     []string{n.binPath()},
		Prepare: func(context.Context) error { return n.prepareContainerd(configFile) },
		Probe:   n.containerdAnswers,
	}), nil
}

func (n *Node) containerdAnswers(ctx context.Context) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Dir.ContainerdSocket())
	if err != nil {
		return err
	}
	return connection.Close()
}

func (n *Node) prepareContainerd(configFile string) error {
	runc, err := n.Release.Binary("runc")
	if err != nil {
		return err
	}
	pause, err := n.Release.Image(release.ImagePause, n.Version)
	if err != nil {
		return err
	}
	settings := containerdSettings{
		Root: n.Dir.Containerd(), State: n.Dir.Runtime("containerd"), Socket: n.Dir.ContainerdSocket(),
		Runc: runc, SandboxImage: pause.Refs[0],
		CNIBin: n.Dir.CNIBin(), CNIConf: n.Dir.CNIConf(),
		SystemdCgroup:         n.Settings.CgroupDriver == host.DriverSystemd,
		RestrictOOMScoreAdj:   n.Settings.RestrictOOMScoreAdj,
		RegistryConfiguration: filepath.Join(n.Dir.Agent(), "registries"),
	}
	for _, dir := range []string{settings.Root, settings.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // containers with users of their own pass through it
			return fmt.Errorf("make containerd's directory: %w", err)
		}
	}
	if err := n.linkCNIPlugins(); err != nil {
		return err
	}
	var content bytes.Buffer
	if err := template.Must(template.New("").Parse(containerdTemplate)).Execute(&content, settings); err != nil {
		return err
	}
	_, err = atomicfile.WriteChanged(configFile, content.Bytes(), 0o600)
	return err
}

// linkCNIPlugins puts the plugins a runtime calls where it looks for them.
func (n *Node) linkCNIPlugins() error {
	if err := os.MkdirAll(n.Dir.CNIBin(), 0o750); err != nil {
		return err
	}
	for _, plugin := range []string{"loopback", "prismnet"} {
		binary, err := n.Release.Binary(plugin)
		if err != nil {
			return err
		}
		link := filepath.Join(n.Dir.CNIBin(), plugin)
		if target, err := os.Readlink(link); err == nil && target == binary {
			continue
		}
		// Rename replaces a link that a running runtime may be about to call, without a gap.
		fresh := link + ".new"
		_ = os.Remove(fresh)
		if err := os.Symlink(binary, fresh); err != nil {
			return fmt.Errorf("install CNI plugin %s: %w", plugin, err)
		}
		if err := os.Rename(fresh, link); err != nil {
			return fmt.Errorf("install CNI plugin %s: %w", plugin, err)
		}
	}
	return nil
}
