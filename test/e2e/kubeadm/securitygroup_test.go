//go:build e2e

package kubeadm

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// securityGroup looks at machines from outside: allowed ports answer, others do not, although something listens there; also
// after a boot, and after the rules were changed on the network.
func securityGroup(t *testing.T, dev *lab.Tenant) {
	host := dev.Host
	shown := host.Cloud(t, "vpc", "get", "default")
	for _, part := range []string{"sg-dev-cluster", "30000-32767", "Kubernetes API Server", "L2 Discovery"} {
		if !strings.Contains(shown, part) {
			t.Errorf("cloud vpc get does not show %q:\n%s", part, shown)
		}
	}
	planes := dev.Kubectl(t, "get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "jsonpath={.items[0].metadata.name}")
	worker := dev.Kubectl(t, "get", "nodes", "-l", "plasmacloud.io/node-group=workers", "-o", "jsonpath={.items[0].metadata.name}")
	plane, other := newMachine(t, dev, planes), newMachine(t, dev, worker)
	plane.lets(t, []int{22, 6443, 10250}, []int{2379, 2380, 10256})
	other.lets(t, []int{22, 10250}, []int{10256})
	for _, table := range []string{"kube-proxy", "prismnet-", "plasmacloud-sg"} {
		if tables := other.run(t, "nft", "list", "tables"); !strings.Contains(tables, table) {
			t.Errorf("no table %s on %s:\n%s", table, worker, tables)
		}
	}
	// A boot, after which the machine's node is ready again.
	booted := other.run(t, "cat", "/proc/1/stat")
	_, _ = host.TryKubectl("exec", "-n", other.namespace, other.pod, "--", "systemctl", "reboot") // which ends what asked for it
	lab.Eventually(t, 3*time.Minute, "the machine boots", func() error {
		if now, err := other.try("cat", "/proc/1/stat"); err != nil || now == booted {
			return fmt.Errorf("it has not yet: %w", err)
		}
		_, err := other.try("systemctl", "is-active", "plasmacloud-security-group.service", "kubelet.service")
		return err
	})
	other.lets(t, []int{22, 10250}, nil)
	lab.Eventually(t, time.Minute, "its services start", func() error {
		_, err := other.try("bash", "-c", "exec 3<>/dev/tcp/"+other.address+"/10256")
		return err
	})
	other.lets(t, nil, []int{10256})
	// Rules of its own, which are on machines once the cluster is repaired.
	host.Kubectl(t, "patch", "networks.plasmacloud.io/default", "-n", "project-default", "--type=merge", "-p",
		`{"spec":{"securityGroups":[{"name":"sg-dev-cluster","rules":[{"protocol":"TCP","ports":"6443"},{"protocol":"TCP","ports":"10250-10256"},{"protocol":"TCP","ports":"30000-32767"},{"protocol":"UDP","ports":"30000-32767"}]}]}}`)
	host.Cloud(t, "k8s", "repair", "dev-cluster", "--wait")
	plane.lets(t, []int{22, 6443, 10250, 10256}, []int{2379})
	other.lets(t, []int{10256}, nil)
}

// machine is a machine seen from its host's network, which is not the cluster's.
type machine struct {
	dev                     *lab.Tenant
	namespace, pod, address string
}

func newMachine(t *testing.T, dev *lab.Tenant, node string) *machine {
	t.Helper()
	m := &machine{dev: dev, namespace: dev.Infrastructure(t), pod: node}
	m.address = dev.Host.Kubectl(t, "get", "pod", node, "-n", m.namespace, "-o", "jsonpath={.status.podIP}")
	return m
}

func (m *machine) try(command ...string) (string, error) {
	return m.dev.Host.TryKubectl(append([]string{"exec", "-n", m.namespace, m.pod, "--"}, command...)...)
}

func (m *machine) run(t *testing.T, command ...string) string {
	t.Helper()
	output, err := m.try(command...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// lets asserts which ports answer from outside. On those that do not, something listens all the same.
func (m *machine) lets(t *testing.T, open, closed []int) {
	t.Helper()
	for _, port := range open {
		lab.Eventually(t, time.Minute, fmt.Sprintf("port %d of %s answers", port, m.pod), func() error { return m.dial(port, 5*time.Second) })
	}
	for _, port := range closed {
		m.run(t, "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", m.address, port))
		if m.dial(port, 2*time.Second) == nil {
			t.Errorf("port %d of %s answers", port, m.pod)
		}
	}
}

func (m *machine) dial(port int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := m.dev.Host.Dial(ctx, "tcp", net.JoinHostPort(m.address, fmt.Sprint(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}
