//go:build e2e

package kubeadm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// access works on the machines through the platform, replaces the key to them, and works on them again.
func access(t *testing.T, dev *lab.Tenant) {
	host, home := dev.Host, dev.Infrastructure(t)
	machines := strings.Fields(host.Cloud(t, "instance", "list", "--cluster", dev.Name, "-o", "name"))
	enter := func() {
		t.Helper()
		for _, machine := range machines {
			name := machine[strings.LastIndex(machine, "/")+1:]
			if out := host.Cloud(t, "k8s", "ssh", dev.Name, name, "--", "sh", "-c", `echo "$(id -un) on $(hostname)"`); !strings.Contains(out, "root on "+name) {
				t.Errorf("on %s: %s", name, out)
			}
		}
	}
	key := func() string {
		t.Helper()
		return host.Kubectl(t, "get", "secret", "ssh", "-n", home, "-o", `jsonpath={.data.ssh-publickey} {.data.ssh-privatekey-previous}`)
	}
	enter()
	before := strings.TrimSpace(key())
	host.Cloud(t, "k8s", "rotate-ssh-key", dev.Name)
	lab.Eventually(t, 2*time.Minute, "the key is replaced on all machines", func() error {
		if now := strings.TrimSpace(key()); now == before || strings.Contains(now, " ") {
			return fmt.Errorf("the key is the old one, or that is still kept")
		}
		return nil
	})
	enter()
}
