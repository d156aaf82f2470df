//go:build e2e

package selfhealing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// machineClusters hurts clusters whose control planes are on machines: one of one machine, and one of three.
func machineClusters(t *testing.T, host *lab.Node) {
	var one, three *patient
	lab.Step(t, "a cluster on machines", func(t *testing.T) {
		one = admit(t, host, "metal", "--type", "kubeadm", "--control-plane-instance-type", "u1.medium", "--workers", "1", "--instance-type", "u1.small")
	})
	lab.Step(t, "a stopped kubelet is started", func(t *testing.T) {
		worker := one.machines(t, v1alpha1.MachineWorker)[0]
		one.heals(t, 3*time.Minute, worker, func(t *testing.T) { one.on(t, worker, "systemctl", "stop", "kubelet") })
		if now := one.machines(t, v1alpha1.MachineWorker); !slices.Contains(now, worker) {
			t.Errorf("the machine was replaced: %v", now)
		}
	})
	lab.Step(t, "a stopped containerd is started", func(t *testing.T) {
		plane := one.machines(t, v1alpha1.MachineControlPlane)[0]
		one.heals(t, 3*time.Minute, "containerd", func(t *testing.T) { one.on(t, plane, "systemctl", "stop", "containerd") })
	})
	lab.Step(t, "changed configuration is laid again", func(t *testing.T) {
		plane := one.machines(t, v1alpha1.MachineControlPlane)[0]
		one.heals(t, 2*time.Minute, "not as it was laid", func(t *testing.T) {
			one.on(t, plane, "sh", "-c", "echo '# changed' >> /etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
		})
	})
	lab.Step(t, "a certificate of a host is renewed", func(t *testing.T) {
		plane := one.machines(t, v1alpha1.MachineControlPlane)[0]
		one.heals(t, 2*time.Minute, "it expires at", func(t *testing.T) { ageOnHost(t, one, plane) })
	})
	lab.Step(t, "the only machine of a control plane is not begun anew without force", func(t *testing.T) { onlyOne(t, one) })
	lab.Step(t, "the cluster on machines goes", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "metal", "--yes", "--wait")
		one.AwaitGone(t)
	})

	lab.Step(t, "a highly available cluster", func(t *testing.T) {
		three = admit(t, host, "trio", "--type", "k3s", "--control-plane-replicas", "3", "--control-plane-instance-type", "u1.medium", "--workers", "0")
	})
	lab.Step(t, "a lost machine of three is replaced", func(t *testing.T) { oneOfThree(t, three) })
	lab.Step(t, "two lost machines of three are replaced by force only", func(t *testing.T) { twoOfThree(t, three) })
	lab.Step(t, "the highly available cluster goes", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "trio", "--yes", "--wait")
		three.AwaitGone(t)
	})
}

// on runs a command on a machine.
func (p *patient) on(t *testing.T, machine string, command ...string) string {
	t.Helper()
	return p.Host.Kubectl(t, append([]string{"exec", "-n", p.home, machine, "--"}, command...)...)
}

// ageOnHost makes the API server's certificate on a host one that ends next week.
func ageOnHost(t *testing.T, p *patient, machine string) {
	t.Helper()
	const pki = "/etc/kubernetes/pki/"
	read := func(name string) []byte { return []byte(p.on(t, machine, "cat", pki+name) + "\n") }
	aged, err := aged(read("ca.crt"), read("ca.key"), read("apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	p.Host.KubectlWith(t, string(aged), "exec", "-i", "-n", p.home, machine, "--", "sh", "-c", "cat > "+pki+"apiserver.crt")
}

// onlyOne loses the only machine of a control plane.
func onlyOne(t *testing.T, p *patient) {
	lost := p.machines(t, v1alpha1.MachineControlPlane)[0]
	p.Host.Kubectl(t, "delete", "pod", lost, "-n", p.home, "--grace-period=0", "--force")
	p.stalls(t, 2*time.Minute, v1alpha1.ReasonRepairRefused, lost, "begin anew and empty", "--force")
	if output, err := p.Host.TryCloud("k8s", "repair", p.Name, "--wait", "--timeout", "2m"); err == nil || !strings.Contains(output, "refused") || !strings.Contains(output, "--force") {
		t.Errorf("a repair without force: %v\n%s", err, output)
	}
	if now := p.machines(t, v1alpha1.MachineControlPlane); !slices.Equal(now, []string{lost}) {
		t.Errorf("machines %v, though it was refused", now)
	}
	p.Host.Cloud(t, "k8s", "repair", p.Name, "--force", "--wait")
	p.healthy(t)
	p.Tenant = p.Host.Tenant(t, project, p.Name) // it has another identity
	lab.Eventually(t, 2*time.Minute, "the new one has its nodes", func() error {
		ready, err := p.ReadyNodes()
		if err == nil && len(ready) != 2 {
			err = fmt.Errorf("%v are ready", ready)
		}
		return err
	})
}

// oneOfThree loses one machine of three. The API answers meanwhile, and etcd has three members in the end.
func oneOfThree(t *testing.T, p *patient) {
	lost := p.machines(t, v1alpha1.MachineControlPlane)[0]
	p.Kubectl(t, "create", "configmap", "kept", "--from-literal=a=b")
	p.heals(t, 2*time.Minute, lost, func(t *testing.T) {
		p.Host.Kubectl(t, "delete", "pod", lost, "-n", p.home, "--grace-period=0", "--force")
		lab.Eventually(t, time.Minute, "the API answers", func() error {
			_, err := p.Try("get", "configmap", "kept")
			return err
		})
	})
	now := p.machines(t, v1alpha1.MachineControlPlane)
	if len(now) != 3 || slices.Contains(now, lost) {
		t.Errorf("machines %v, lost %s", now, lost)
	}
	p.Kubectl(t, "get", "configmap", "kept")
}

// twoOfThree loses the majority. By force the third goes on with what it has.
func twoOfThree(t *testing.T, p *patient) {
	planes := p.machines(t, v1alpha1.MachineControlPlane)
	p.Host.Kubectl(t, append([]string{"delete", "pods", "-n", p.home, "--grace-period=0", "--force"}, planes[:2]...)...)
	p.stalls(t, 2*time.Minute, v1alpha1.ReasonRepairRefused, "only 1 of 3 members", "backup", "--force")
	if output, err := p.Host.TryCloud("k8s", "repair", p.Name, "--wait", "--timeout", "2m"); err == nil || !strings.Contains(output, "refused") {
		t.Errorf("a repair without a majority: %v\n%s", err, output)
	}
	if now := p.machines(t, v1alpha1.MachineControlPlane); !slices.Equal(now, planes) {
		t.Errorf("machines %v, though it was refused", now)
	}
	p.Host.Cloud(t, "k8s", "repair", p.Name, "--force", "--wait")
	p.healthy(t)
	if now := p.machines(t, v1alpha1.MachineControlPlane); len(now) != 3 || !slices.Contains(now, planes[2]) {
		t.Errorf("machines %v, %s was left", now, planes[2])
	}
	p.Kubectl(t, "get", "configmap", "kept")
}
