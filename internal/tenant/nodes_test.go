package tenant_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/tenant"
)

func TestANodeThatLacksOnlyAPodNetwork(t *testing.T) {
	const network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	for message, test := range map[string]struct {
		status corev1.ConditionStatus
		want   bool
	}{
		network:                                  {corev1.ConditionFalse, true},
		"[" + network + ", PLEG is not healthy]": {corev1.ConditionFalse, false},
		"kubelet is posting ready status":        {corev1.ConditionTrue, false},
		"Kubelet stopped posting node status.":   {corev1.ConditionUnknown, false},
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Message: network},
			{Type: corev1.NodeReady, Status: test.status, Message: message},
		}}}
		if tenant.LacksPodNetwork(node) != test.want {
			t.Errorf("%s: %v", message, !test.want)
		}
	}
}
