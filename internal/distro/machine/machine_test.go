package machine

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/distro/oci"
)

func overlay(t *testing.T) map[string]oci.Node {
	t.Helper()
	nodes, err := Overlay(func(name string) string { return "/built/" + name })
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]oci.Node)
	for _, node := range nodes {
		if _, twice := all[node.Path]; twice {
			t.Errorf("%s is there twice", node.Path)
		}
		all[node.Path] = node
	}
	return all
}

func TestUnitsThatTouchTheHostAreMasked(t *testing.T) {
	nodes := overlay(t)
	for _, unit := range []string{
		"systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-logind.service", "getty.target",
		"systemd-networkd.service", "systemd-resolved.service", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-sysctl.service",
	} {
		if link := nodes["etc/systemd/system/"+unit].Link; link != "/dev/null" {
			t.Errorf("%s is a link to %q, want it masked", unit, link)
		}
	}
}

func TestUnitsThatStartAreThere(t *testing.T) {
	nodes := overlay(t)
	for unit, target := range enabled {
		link := nodes["etc/systemd/system/"+target+".wants/"+unit].Link
		data := nodes[strings.TrimPrefix(link, "/")].Data
		if !strings.Contains(string(data), "WantedBy="+target) {
			t.Errorf("%s: link %q, unit %q", unit, link, data)
		}
	}
}

func TestScriptsAndProgramsCanRun(t *testing.T) {
	for path, node := range overlay(t) {
		if strings.HasPrefix(path, "usr/local/lib/plasmacloud/") {
			check := exec.Command("sh", "-n")
			check.Stdin = strings.NewReader(string(node.Data))
			if out, err := check.CombinedOutput(); err != nil || node.Mode != 0o755 {
				t.Errorf("%s: mode %o, %v: %s", path, node.Mode, err, out)
			}
		}
		if node.Source != "" && (node.Source != "/built/"+filepath.Base(path) || node.Mode != 0) {
			t.Errorf("%s comes from %s with mode %o", path, node.Source, node.Mode)
		}
		if strings.Contains(path, "ssh_host_") {
			t.Errorf("%s: a host key in the image", path)
		}
	}
}

func TestSettingsNameTheSandboxImage(t *testing.T) {
	nodes, err := Settings("example.com/pause:3.10")
	if err != nil {
		t.Fatal(err)
	}
	text := string(nodes[0].Data)
	for _, want := range []string{"sandbox = 'example.com/pause:3.10'", "restrict_oom_score_adj = true", "snapshotter = 'overlayfs'"} {
		if nodes[0].Path != "etc/containerd/config.toml" || !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", nodes[0].Path, want, text)
		}
	}
}

func TestNodesStartTheirAgentAndNothingElse(t *testing.T) {
	listed, err := Node([]oci.Node{{Path: "manifest.json", Data: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	nodes := make(map[string]oci.Node)
	for _, node := range listed {
		if _, twice := nodes[node.Path]; twice {
			t.Errorf("%s is there twice", node.Path)
		}
		nodes[node.Path] = node
	}
	for unit := range enabled {
		if link := nodes["etc/systemd/system/"+unit].Link; link != "/dev/null" {
			t.Errorf("%s is a link to %q, want it masked", unit, link)
		}
	}
	link := nodes["etc/systemd/system/multi-user.target.wants/k8shost-agent.service"].Link
	unit := string(nodes[strings.TrimPrefix(link, "/")].Data)
	for _, want := range []string{"Type=notify", "ExecStart=" + NodeCommand[0] + " agent --config /etc/k8shost/config.yaml", "WantedBy=multi-user.target"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the agent's unit lacks %q:\n%s", want, unit)
		}
	}
	if _, there := nodes["usr/local/lib/plasmacloud/release/manifest.json"]; !there {
		t.Error("the release is not where it is looked for")
	}
	for _, node := range Own(func(name string) string { return "/built/" + name }) {
		if node.Source != "/built/"+filepath.Base(node.Path) || !strings.HasPrefix(node.Path, "usr/local/lib/plasmacloud/release/bin/") {
			t.Errorf("%s comes from %s", node.Path, node.Source)
		}
	}
}
