package install

import (
	"os"
	"path/filepath"
	"testing"

	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

func TestLogged(t *testing.T) {
	for line, want := range map[string]string{
		`time=2026-01-02T12:00:00Z level=INFO msg="component ready" component=etcd after=372ms`: "etcd: component ready",
		`time=2026-01-02T12:00:00Z level=INFO msg=stopping process=1`:                           "stopping",
		`time=x level=WARN msg="say \"when\""`:                                                  `say "when"`,
		`The cluster is up, after 5.4s. To use it:`:                                             "",
	} {
		if have := logged(line); have != want {
			t.Errorf("%s: %q, want %q", line, have, want)
		}
	}
}

func TestPlannedAddress(t *testing.T) {
	t.Setenv("K8SHOST_CONFIG", os.DevNull)
	if address, err := plannedAddress(t.TempDir()); err != nil || address.String() != "10.43.0.20" {
		t.Errorf("%s %v", address, err)
	}
	t.Setenv("K8SHOST_SERVICE_CIDR", "10.96.0.0/12")
	if address, err := plannedAddress(t.TempDir()); err != nil || address.String() != "10.96.0.20" || iamURL(address) != "https://10.96.0.20:443" {
		t.Errorf("%s %v", address, err)
	}
}

func TestAsksUs(t *testing.T) {
	dir := t.TempDir()
	in := &installation{target: platform.Target{DataDir: dir}, files: filepath.Join(dir, platformDir)}
	for content, want := range map[string]bool{
		"": false, "log-level: debug\n": false, webhookFlag + ": /elsewhere\n": false, webhookFlag + ": " + in.webhookFile() + "\n": true,
	} {
		must(t, os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(content), 0o600))
		if in.asksUs(datadir.New(dir)) != want {
			t.Errorf("%q", content)
		}
	}
}

func TestCopyChanged(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	must(t, os.WriteFile(from, []byte("one"), 0o600))
	for _, want := range []bool{true, false} {
		if changed, err := copyChanged(from, to); err != nil || changed != want {
			t.Errorf("%v %v", changed, err)
		}
	}
	must(t, os.WriteFile(from, []byte("another"), 0o600))
	if changed, err := copyChanged(from, to); err != nil || !changed {
		t.Errorf("%v %v", changed, err)
	}
}
