//go:build e2e

// Package service is the scenario of a host with systemd: a machine pod, in which `k8shost up` makes a unit that systemd
// starts, watches and starts again, and `k8shost down` takes it all away.
package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// k8shost is where a release belongs on a host.
const k8shost = "/usr/local/lib/plasmacloud/release/bin/k8shost"

// machine is a privileged pod with systemd in it. The node's own address is in the outer cluster's pod network, so the
// inner one gets ranges of its own.
const machine = `apiVersion: v1
kind: Pod
metadata: {name: machine}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: machine
      image: %s
      imagePullPolicy: Never
      securityContext: {privileged: true}
      volumeMounts:
        - {name: release, mountPath: /usr/local/lib/plasmacloud/release, readOnly: true}
        - {name: data, mountPath: /var/lib/k8shost}
        - {name: run, mountPath: /run}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - {name: release, hostPath: {path: %s}}
    - {name: data, emptyDir: {}}
    - {name: run, emptyDir: {medium: Memory}}
    - {name: tmp, emptyDir: {medium: Memory}}
`

func TestService(t *testing.T) {
	l := lab.New(t)
	node := l.Node(t, "host")
	image, err := l.Release.Image(release.ImageMachine, l.Release.Versions()[0])
	if err != nil {
		t.Fatal(err)
	}
	node.LayImages(t, "machine", image.Refs...)
	node.Start(t, "server")
	node.AwaitNodeReady(t, node.Name)
	lab.Step(t, "a host with systemd", func(t *testing.T) {
		node.KubectlWith(t, fmt.Sprintf(machine, image.Refs[0], l.Release.Dir()), "apply", "-f", "-")
		lab.Eventually(t, 2*time.Minute, "systemd runs", func() error {
			state, err := node.TryExec("machine", "systemctl", "is-system-running")
			if err == nil && strings.TrimSpace(state) != "running" {
				err = fmt.Errorf("it is %s", state)
			}
			return err
		})
	})
	lab.Step(t, "up makes a unit", func(t *testing.T) {
		node.Exec(t, "machine", k8shost, "up", "--cluster-cidr", "10.52.0.0/16", "--service-cidr", "10.53.0.0/16")
		if state := unit(t, node, "ActiveState"); state != "active" {
			t.Fatalf("the unit is %s", state)
		}
		if kind := unit(t, node, "Type"); kind != "notify" {
			t.Fatalf("the unit is of type %s", kind)
		}
		lab.Eventually(t, 2*time.Minute, "CoreDNS runs inside", func() error {
			_, err := node.TryExec("machine", k8shost, "kubectl", "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=5s")
			return err
		})
	})
	lab.Step(t, "systemd starts it again after kill -9", func(t *testing.T) {
		before := unit(t, node, "MainPID")
		node.Exec(t, "machine", "kill", "-9", before)
		lab.Eventually(t, 2*time.Minute, "the unit is active again", func() error {
			if state, now := unit(t, node, "ActiveState"), unit(t, node, "MainPID"); state != "active" || now == before {
				return fmt.Errorf("the unit is %s with process %s", state, now)
			}
			return nil
		})
		restarts := node.Exec(t, "machine", k8shost, "kubectl", "-n", "kube-system", "get", "pods", "-o",
			"jsonpath={.items[*].status.containerStatuses[*].restartCount}")
		if strings.TrimSpace(restarts) != "0" {
			t.Fatalf("pods were restarted: %q", restarts)
		}
	})
	lab.Step(t, "down takes it all away", func(t *testing.T) {
		node.Exec(t, "machine", k8shost, "down", "--purge")
		if state := unit(t, node, "LoadState"); state != "not-found" {
			t.Fatalf("the unit is %s", state)
		}
		if tables := strings.TrimSpace(node.Exec(t, "machine", "nft", "list", "tables")); tables != "" {
			t.Fatalf("firewall tables are left: %s", tables)
		}
		if links := node.Exec(t, "machine", "ip", "-brief", "link"); strings.Count(strings.TrimSpace(links), "\n") != 1 {
			t.Fatalf("interfaces are left besides lo and eth0:\n%s", links)
		}
	})
}

func unit(t *testing.T, node *lab.Node, property string) string {
	t.Helper()
	return strings.TrimSpace(node.Exec(t, "machine", "systemctl", "show", "--property", property, "--value", "k8shost.service"))
}
