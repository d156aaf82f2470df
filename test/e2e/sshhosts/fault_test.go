//go:build e2e

package sshhosts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// fault is something that a host's owner has to mend.
type fault struct {
	inject, mend string   // scripts that are run on the host
	told         []string // what the cluster's task says of it
}

const hostKey = "/var/lib/machine/ssh_host_ed25519_key"

// faults are one for each host.
var faults = [hostCount]fault{
	{
		"systemctl stop ssh", "systemctl start ssh",
		[]string{"connection refused", "start its SSH server"},
	},
	{
		"mv " + hostKey + " /root/key && rm -f " + hostKey + ".pub && systemctl restart ssh", "mv /root/key " + hostKey + " && systemctl restart ssh",
		[]string{"host key changed", "somebody may pretend to be the host"},
	},
}

// broken asks for a cluster while no host can be used. Its task says what is the matter with each, and goes on when they
// are mended.
func (y *yard) broken(t *testing.T, cluster, kind string) {
	run := func(host int, script string) {
		t.Helper()
		y.host.Kubectl(t, "exec", "-n", namespace, fmt.Sprintf("yard-host-%d", host), "--", "sh", "-c", script)
	}
	for i, fault := range faults {
		run(i, fault.inject)
	}
	y.request(t, cluster, kind)
	lab.Eventually(t, 2*time.Minute, "the task tells what is the matter with the hosts", func() error {
		told := y.host.Cloud(t, "task", "list", "-o", "json")
		for i, fault := range faults {
			for _, part := range append(fault.told, y.hosts[i].Address) {
				if !strings.Contains(told, part) {
					return fmt.Errorf("nothing is said of %q: %s", part, told)
				}
			}
		}
		return nil
	})
	for i, fault := range faults {
		run(i, fault.mend)
	}
}
