//go:build e2e

package selfhealing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// hostedClusters hurts a cluster whose control plane is pods.
func hostedClusters(t *testing.T, host *lab.Node) {
	var p *patient
	lab.Step(t, "a hosted cluster", func(t *testing.T) { p = admit(t, host, "web", "--workers", "2", "--instance-type", "u1.small") })
	lab.Step(t, "what somebody edits is put right", func(t *testing.T) {
		p.heals(t, time.Minute, "networkpolicies", func(t *testing.T) {
			host.Kubectl(t, "delete", "networkpolicy", "machine", "-n", p.home)
		})
		p.heals(t, time.Minute, "deployment control-plane was changed", func(t *testing.T) {
			host.Kubectl(t, "scale", "deployment/control-plane", "-n", p.home, "--replicas=2")
		})
	})
	lab.Step(t, "certificates are renewed", func(t *testing.T) {
		p.heals(t, 3*time.Minute, "is due for renewal", func(t *testing.T) { age(t, p) })
	})
	lab.Step(t, "a dead worker is replaced", func(t *testing.T) {
		lost := p.machines(t, v1alpha1.MachineWorker)[0]
		p.heals(t, time.Minute, lost, func(t *testing.T) {
			host.Kubectl(t, "delete", "pod", lost, "-n", p.home, "--grace-period=0", "--force")
		})
		if left := p.machines(t, v1alpha1.MachineWorker); len(left) != 2 || slices.Contains(left, lost) {
			t.Errorf("machines %v, lost %s", left, lost)
		}
	})
	lab.Step(t, "all workers at once are replaced one by one", func(t *testing.T) { mass(t, p) })
	lab.Step(t, "what cannot be made anew is left to people", func(t *testing.T) { lostAuthority(t, p) })
	lab.Step(t, "repairs that do not help end", func(t *testing.T) { exhaust(t, p) })
	lab.Step(t, "the hosted cluster goes", func(t *testing.T) {
		host.Cloud(t, "k8s", "delete", "web", "--yes", "--wait")
		p.AwaitGone(t)
	})
}

func (p *patient) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := json.Unmarshal([]byte(p.Host.Kubectl(t, "get", "secret", name, "-n", p.home, "-o", "json")), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func (p *patient) put(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	secret.ResourceVersion, secret.UID, secret.ManagedFields = "", "", nil
	content, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Host.TryKubectl("get", "secret", secret.Name, "-n", p.home); err == nil {
		p.Host.KubectlWith(t, string(content), "replace", "-f", "-")
		return
	}
	p.Host.KubectlWith(t, string(content), "create", "-f", "-")
}

// age makes the API server's certificate one that ends next week.
func age(t *testing.T, p *patient) {
	t.Helper()
	secret := p.secret(t, "pki")
	var bundle struct{ Files map[string][]byte }
	if err := json.Unmarshal(secret.Data["bundle.json"], &bundle); err != nil {
		t.Fatal(err)
	}
	aged, err := aged(bundle.Files["ca.crt"], bundle.Files["ca.key"], secret.Data["apiserver.crt"])
	if err != nil {
		t.Fatal(err)
	}
	secret.Data["apiserver.crt"] = aged
	p.put(t, secret)
}

// mass takes all machines at once. Never is more than one of the two replaced at the same time.
func mass(t *testing.T, p *patient) {
	before := p.machines(t, v1alpha1.MachineWorker)
	p.Host.Kubectl(t, append([]string{"delete", "pods", "-n", p.home, "--grace-period=0", "--force"}, before...)...)
	held := false
	lab.Eventually(t, 4*time.Minute, "all are replaced", func() error {
		now := p.machines(t, v1alpha1.MachineWorker) // first: by the second one the first is ready
		state := p.Host.Kubectl(t, "get", "nodegroups.plasmacloud.io", "web-workers", "-n", namespace, "-o",
			`jsonpath={.status.readyReplicas} {.status.conditions[?(@.type=="Ready")].reason}`)
		held = held || strings.HasSuffix(state, "ReplacementHeldBack")
		fresh := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(before, name) })
		ready, _, _ := strings.Cut(state, " ")
		if len(fresh) == 2 && ready == "0" {
			t.Errorf("both are replaced at once: %v", now)
		}
		if len(fresh) < 2 || ready != "2" {
			return fmt.Errorf("machines %v, state %s", now, state)
		}
		return nil
	})
	if !held {
		t.Error("nobody said that replacement is held back")
	}
	p.healthy(t)
}

// lostAuthority takes the cluster's identity away, and brings it back.
func lostAuthority(t *testing.T, p *patient) {
	kept := []*corev1.Secret{p.secret(t, "pki"), p.secret(t, "control-plane")}
	for _, secret := range kept {
		p.Host.Kubectl(t, "delete", "secret", secret.Name, "-n", p.home)
	}
	p.stalls(t, 3*time.Minute, v1alpha1.ReasonActionNeeded, "authorities are lost", "backup")
	before := len(p.repairs(t))
	if output, err := p.Host.TryCloud("k8s", "repair", p.Name, "--wait", "--timeout", "2m"); err == nil || !strings.Contains(output, "backup") {
		t.Errorf("a repair of what is lost: %v\n%s", err, output)
	}
	for _, task := range p.repairs(t)[before:] {
		if task.Spec.Automatic {
			t.Errorf("it was tried without anybody asking: %s", task.Name)
		}
	}
	for _, secret := range kept {
		p.put(t, secret)
	}
	p.Host.Cloud(t, "k8s", "repair", p.Name, "--wait")
	p.healthy(t)
}

// exhaust breaks again what is mended, until nobody tries any more.
func exhaust(t *testing.T, p *patient) {
	hurt := func() {
		_, _ = p.Host.TryKubectl("delete", "networkpolicy", "machine", "-n", p.home, "--ignore-not-found")
	}
	before := len(p.repairs(t))
	lab.Eventually(t, 5*time.Minute, "no further repair is tried", func() error {
		hurt()
		c := p.cluster(t)
		if health := condition(c, v1alpha1.ConditionHealthy); health.Reason != v1alpha1.ReasonRepairsExhausted {
			return fmt.Errorf("%s: %s", health.Reason, health.Message)
		}
		return nil
	})
	p.stalls(t, time.Minute, v1alpha1.ReasonRepairsExhausted, "2 repairs have not helped", "cloud k8s repair")
	if n := len(p.repairs(t)) - before; n != 2 {
		t.Errorf("%d repairs, want 2", n)
	}
	p.Host.Cloud(t, "k8s", "repair", p.Name, "--wait")
	p.healthy(t)
}
