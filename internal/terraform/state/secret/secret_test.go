package secret

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
	"plasmacloud.io/plasmacloud/internal/terraform/state/statetest"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

func TestStore(t *testing.T) {
	clients, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	statetest.Run(t, func(t *testing.T) state.Store { return New(clients.CoreV1().Secrets(api.Namespace(t))) })
}
