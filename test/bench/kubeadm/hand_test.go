//go:build bench

package kubeadm

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

// hand makes clusters as somebody does who follows kubeadm's manual, types without a pause and never looks anything up.
type hand struct {
	host                   *lab.Node
	version, image, images string
}

// balancer leads to those machines of a control plane that are labelled as taking part in it.
const balancer = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {balancer: %[1]s}
  ports: [{port: 6443}]
`

// create returns how long it takes from the first command to the end of the last join, and removes the cluster.
func (h hand) create(t *testing.T, name string, controlPlanes, workers int) time.Duration {
	t.Helper()
	var machines []string
	for i := range controlPlanes + workers {
		machines = append(machines, fmt.Sprintf("%s-%d", name, i))
	}
	began := time.Now()
	addresses := measure.Machines(t, h.host, h.image, h.images, machines...)
	defer measure.RemoveMachines(t, h.host, machines...)
	endpoint := addresses[0]
	if controlPlanes > 1 {
		h.host.KubectlWith(t, fmt.Sprintf(balancer, name), "apply", "-f", "-")
		defer h.host.Kubectl(t, "delete", "service", name)
		endpoint = h.host.Kubectl(t, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
	}
	endpoint += ":6443"
	certificateKey, token := secret(32), secret(3)+"."+secret(8)
	h.balance(t, name, machines[0]) // init calls the API by its load balancer
	h.run(t, machines[0], "init", "--kubernetes-version="+h.version, "--control-plane-endpoint="+endpoint, "--pod-network-cidr=192.168.0.0/16",
		"--token="+token, "--upload-certs", "--certificate-key="+certificateKey, "--skip-token-print")
	join := []string{"join", endpoint, "--token=" + token, "--discovery-token-unsafe-skip-ca-verification"}
	for _, machine := range machines[1:controlPlanes] {
		h.run(t, machine, append(join, "--control-plane", "--certificate-key="+certificateKey)...)
		h.balance(t, name, machine)
	}
	for _, machine := range machines[controlPlanes:] {
		h.run(t, machine, join...)
	}
	took := time.Since(began)
	nodes := h.host.Exec(t, machines[0], "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "nodes", "-o", "name")
	if got := len(strings.Fields(nodes)); got != len(machines) {
		t.Fatalf("%d nodes were made by hand, want %d:\n%s", got, len(machines), nodes)
	}
	return took
}

// balance lets the load balancer use a machine.
func (h hand) balance(t *testing.T, name, machine string) {
	t.Helper()
	h.host.Kubectl(t, "label", "pod", machine, "balancer="+name)
}

// run runs kubeadm on a machine to its end.
func (h hand) run(t *testing.T, machine string, args ...string) {
	t.Helper()
	measure.Start(t, h.host, machine, "kubeadm-"+args[0], append(append([]string{"kubeadm"}, args...), "--ignore-preflight-errors=all")...)
	measure.Finish(t, h.host, machine, "kubeadm-"+args[0])
}

// secret is so many random bytes in hexadecimal.
func secret(length int) string {
	bytes := make([]byte, length)
	_, _ = rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}
