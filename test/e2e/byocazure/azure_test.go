//go:build e2e

// Package byocazure is the scenario of infrastructure in a customer's subscription of Azure, through the whole product: the
// command line, the API, tasks, deployers in pods, the real OpenTofu and provider, and in place of Azure a stub that is
// reached over TLS, as Azure is. An account, a network, a cluster and a bucket are made; what is there is left as it is; a
// deployer is killed at its work; one works elsewhere; and in the end the stub is empty, and nobody has told the credentials.
package byocazure

import (
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	stubazure "plasmacloud.io/plasmacloud/test/stub/azure"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

const zeros = "00000000-0000-0000-0000-000000000000"

func TestByocAzure(t *testing.T) {
	node := lab.New(t).Node(t, "host")
	stub := stubazure.New(stubazure.Config{Delay: 2 * time.Second})
	l := &byoclab.Life{
		Platform: node, Stub: stub, Provider: "azure", Type: "aks", Version: "v1.35.2",
		Credentials: byoclab.Secret, Secret: byoclab.Secret,
		Account: []string{"--provider", "azure", "--region", "westeurope", "--azure-subscription", zeros, "--azure-tenant", zeros, "--azure-client", zeros},
	}
	lab.Step(t, "up", func(t *testing.T) { l.Cloud(t, "up", "--data-dir", node.Data.Path()) })
	serve(t, byoclab.Product{Node: node}, stub)
	lab.Step(t, "account", l.CreateAccount)
	lab.Step(t, "network", func(t *testing.T) {
		l.CreateNetwork(t, "main", "10.0.0.0/16")
		byoclab.Has(t, stub.Inventory(), map[string]int{"resourcegroups": 1, "virtualnetworks": 1, "natgateways": 1})
		shown := l.Kubectl(t, "get", "network", "main", "-n", byoclab.Team, "-o", "jsonpath={.status.id} {.status.infraVersion}")
		if !strings.Contains(shown, "/virtualNetworks/main-") || !strings.HasSuffix(shown, " v1.0.0") {
			t.Errorf("the network's status says %s", shown)
		}
	})
	lab.Step(t, "cluster", func(t *testing.T) {
		l.CreateCluster(t, ".azmk8s.io:443")
		byoclab.Has(t, stub.Inventory(), map[string]int{"managedclusters": 1, "agentpools": 1})
	})
	lab.Step(t, "bucket", func(t *testing.T) {
		l.CreateBucket(t)
		byoclab.Has(t, stub.Inventory(), map[string]int{"storageaccounts": 1, "containers": 1})
	})
	lab.Step(t, "what is there stays as it is", l.Unchanged)
	lab.Step(t, "scale", l.Scale)
	lab.Step(t, "drift", func(t *testing.T) {
		l.Drift(t, func() int {
			return stub.Change("managedclusters", func(cluster map[string]any) { cluster["tags"] = map[string]any{"whose": "ours"} })
		})
	})
	lab.Step(t, "deployers are killed in a busy cloud", func(t *testing.T) {
		l.Killed(t, "virtualnetworks", map[string]int{"virtualnetworks": 1, "natgateways": 1}, ledger.Fault{Request: "PUT ", Status: 503, Times: 2}, ledger.Fault{Request: "GET ", Status: 429, Times: 2})
	})
	lab.Step(t, "a deployer elsewhere", func(t *testing.T) { l.Elsewhere(t, node) })
	lab.Step(t, "credentials are revoked", func(t *testing.T) { l.Revoked(t, "azurerm_virtual_network.this /subscriptions/") })
	lab.Step(t, "delete leaves nothing", func(t *testing.T) { l.Remove(t, "natgateways") })
	lab.Step(t, "nobody tells the credentials", l.Untold)
	lab.Step(t, "down", func(t *testing.T) { l.Cloud(t, "down", "--data-dir", node.Data.Path(), "--purge", "--yes") })
}

// serve runs the stub on the node, and tells deployers where it is and whom to trust there, as an operator would of private
// endpoints.
func serve(t *testing.T, p byoclab.Product, stub *stubazure.Server) {
	t.Helper()
	address, authority := p.ServeTLS(t, stub)
	t.Cleanup(func() {
		if unknown := stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	p.Settings(t, "azure", map[string]string{"ARM_METADATA_HOSTNAME": strings.TrimPrefix(address, "https://"), cloudapi.EnvironmentCA: authority})
}
