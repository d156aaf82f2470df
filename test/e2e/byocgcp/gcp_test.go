//go:build e2e

// Package byocgcp is the scenario of infrastructure in a customer's project of Google Cloud, through the whole product: the
// command line, the API, tasks, deployers in pods, the real OpenTofu and provider, and in place of Google a stub. An
// account, a network, a cluster and a bucket are made; what is there is left as it is, and what somebody else has changed is
// put right; deployers are killed at their work; credentials are revoked; and in the end the stub is empty but for what was
// forgotten, and nobody has told the credentials.
package byocgcp

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	stubgcp "plasmacloud.io/plasmacloud/test/stub/gcp"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// token is a credential that may be nowhere but in its Secret, and in the environment of the provider.
const token = "ya29.wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

// scenario is the platform on a node, and the stub beside it.
type scenario struct {
	byoclab.Product
	stub *stubgcp.Server
}

func TestByocGCP(t *testing.T) {
	l := lab.New(t)
	s := &scenario{Product: byoclab.Product{Node: l.Node(t, "host")}, stub: stubgcp.New(stubgcp.Config{Delay: 2 * time.Second, Project: "stub-project", Token: token})}
	life := &byoclab.Life{Platform: s.Product, Stub: s.stub} // the steps that are the same in every cloud
	lab.Step(t, "up", func(t *testing.T) { s.Cloud(t, "up", "--data-dir", s.Data.Path()) })
	lab.Step(t, "the stub is reached as Google would be", s.serve)
	lab.Step(t, "an account that lacks permissions", s.account)
	lab.Step(t, "network", s.network)
	lab.Step(t, "cluster", s.cluster)
	lab.Step(t, "bucket", s.bucket)
	lab.Step(t, "what is there stays as it is", life.Unchanged)
	lab.Step(t, "scale", life.Scale)
	lab.Step(t, "plan", s.plans)
	lab.Step(t, "drift is told, and repaired", s.drift)
	lab.Step(t, "a task is cancelled", s.cancelled)
	lab.Step(t, "deployers are killed in a busy cloud", func(t *testing.T) {
		life.Killed(t, "networks", map[string]int{"networks": 1, "subnetworks": 1, "routers": 1}, ledger.Fault{Request: "POST /compute", Status: 503, Times: 2}, ledger.Fault{Request: "GET /compute", Status: 429, Times: 2})
	})
	lab.Step(t, "credentials are revoked", func(t *testing.T) {
		life.Revoked(t, "google_compute_network.this projects/stub-project/global/networks/second-")
	})
	lab.Step(t, "credentials are renewed", s.renewed)
	lab.Step(t, "delete leaves nothing", func(t *testing.T) { life.Remove(t, "routers") })
	lab.Step(t, "nobody tells the credentials", func(t *testing.T) { s.NobodyTells(t, token); s.NobodyTells(t, renewed) })
	lab.Step(t, "down", func(t *testing.T) { s.Cloud(t, "down", "--data-dir", s.Data.Path(), "--purge", "--yes") })
}

// serve runs the stub on the node, and tells deployers where it is, as an operator would of private endpoints.
func (s *scenario) serve(t *testing.T) {
	t.Cleanup(func() {
		if unknown := s.stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	environment := stubgcp.Environment(s.Serve(t, s.stub))
	// The provider also asks Google who it is, at an address of Google's own, and waits long for an answer. The way out of
	// here leads through a proxy that lets nobody out.
	environment["HTTPS_PROXY"] = s.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	s.Settings(t, "gcp", environment)
}

func (s *scenario) network(t *testing.T) {
	s.Cloud(t, "vpc", "create", "--name", "main", "--account", "prod", "--cidr", "10.0.0.0/16", "--wait")
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"networks": 1, "subnetworks": 1, "routers": 1})
	if shown := s.Kubectl(t, "get", "network", "main", "-n", byoclab.Team, "-o", "jsonpath={.status.id} {.status.infraVersion} {.status.subnets[*].name}"); !strings.HasPrefix(shown, "projects/stub-project/global/networks/main-") || !strings.HasSuffix(shown, " v1.0.0 nodes") {
		t.Errorf("the network's status says %s", shown)
	}
}

func (s *scenario) cluster(t *testing.T) {
	s.Cloud(t, "k8s", "create", "--name", "shop", "--type", "gke", "--vpc", "main", "--version", "v1.35", "--workers", "3", "--instance-type", "u1.large",
		"--access-cidr", "198.51.100.0/24", "--wait")
	list := s.Cloud(t, "k8s", "list")
	for _, want := range []string{"shop", "GKE", "RUNNING", "v1.35.2", "3/3", "https://gke-"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"clusters": 1, "nodePools": 1})
}

func (s *scenario) bucket(t *testing.T) {
	s.Cloud(t, "bucket", "create", "--name", "assets", "--cluster", "shop", "--wait")
	if list := s.Cloud(t, "bucket", "list"); !strings.Contains(list, "RUNNING") || !strings.Contains(list, "assets-") {
		t.Errorf("the list shows\n%s", list)
	}
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"b": 1})
	if refusal := s.Refused(t, "k8s", "delete", "shop", "--yes"); !strings.Contains(refusal, "it still has buckets: assets") {
		t.Errorf("deleting its cluster: %s", refusal)
	}
}
