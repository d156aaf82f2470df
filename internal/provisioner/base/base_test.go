package base

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhatBlocksIsNamed(t *testing.T) {
	got := remaining(&corev1.Namespace{Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Message: "a finalizer remains: x in 1 resource instances"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Message: "all content deleted"},
	}}})
	if !strings.Contains(got, "a finalizer remains") || strings.Contains(got, "all content") {
		t.Error(got)
	}
}
