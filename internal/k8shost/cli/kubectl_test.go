package cli

import (
	"strings"
	"testing"
)

func TestAKubeconfigForAnotherKubectlIsNotOurs(t *testing.T) {
	for args, want := range map[string]bool{
		"get nodes":                                     false,
		"get nodes --kubeconfig /x":                     true,
		"--kubeconfig=/x get nodes":                     true,
		"exec pod -- kubectl --kubeconfig=/x get nodes": false,
	} {
		if got := namesKubeconfig(strings.Fields(args)); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
}
