//go:build e2e

package byocgcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// renewed is the credential that takes the token's place.
const renewed = "ya29.je7MtGbClwBF-2Zp9Utk-h3yCo8nvbEXAMPLEKEY"

// account makes an account that may not do all that is needed, which is told, and lets it.
func (s *scenario) account(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	s.stub.Deny("container.clusters.create")
	s.Cloud(t, "account", "create", "--name", "prod", "--provider", "gcp", "--region", "europe-west1", "--gcp-project", "stub-project", "--credentials-file", file)
	s.condition(t, "account", "prod", v1alpha1.ConditionVerified, "False PermissionsMissing", "container.clusters.create")
	if said := s.Refused(t, "account", "verify", "prod"); !strings.Contains(said, "container.clusters.create") {
		t.Errorf("verify says\n%s", said)
	}
	s.stub.Deny()
	if shown := s.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("verify says\n%s", shown)
	}
}

// condition waits until a condition is so, and says something.
func (s *scenario) condition(t *testing.T, kind, name, condition, want, says string) {
	t.Helper()
	lab.Eventually(t, 4*time.Minute, fmt.Sprintf("%s %s is %s %s", kind, name, condition, want), func() error {
		told, err := s.TryKubectl("get", kind+"s.plasmacloud.io", name, "-n", byoclab.Team, "-o",
			`jsonpath={range .status.conditions[?(@.type=="`+condition+`")]}{.status} {.reason} {.message}{end}`)
		if err == nil && (!strings.HasPrefix(told, want) || !strings.Contains(told, says)) {
			err = fmt.Errorf("it is %s", told)
		}
		return err
	})
}

// plans shows what changes would do. Nothing is changed by that.
func (s *scenario) plans(t *testing.T) {
	before, generation := s.stub.Created(), s.Kubectl(t, "get", "clusters.plasmacloud.io", "shop", "-n", byoclab.Team, "-o", "jsonpath={.metadata.generation}")
	if plan := s.Cloud(t, "k8s", "plan", "shop"); !strings.Contains(plan, "nothing to do") {
		t.Errorf("planned again:\n%s", plan)
	}
	if plan := s.Cloud(t, "k8s", "plan", "shop", "--version", "v1.36"); !strings.Contains(plan, "google_container_cluster.this is changed") || !strings.Contains(plan, "0 replaced, 0 destroyed") {
		t.Errorf("an upgrade is planned as\n%s", plan)
	}
	var result v1alpha1.PlanResult
	output := s.Cloud(t, "k8s", "plan", "shop", "--workers", "6", "-o", "json")
	if err := json.NewDecoder(strings.NewReader(output[strings.Index(output, "{"):])).Decode(&result); err != nil || len(result.Changes) != 1 || result.Changes[0].Effect != "changed" {
		t.Errorf("scaling is planned as\n%s", output)
	}
	// A release channel, and with it the cluster, is the customer's to lose.
	if said := s.Refused(t, "k8s", "plan", "shop", "--change", `{"gke":{"autopilot":true},"nodeGroups":null}`); !strings.Contains(said, "google_container_cluster.this") || !strings.Contains(said, "plasmacloud.io/consent=") {
		t.Errorf("another kind of cluster is planned as\n%s", said)
	}
	if after := s.stub.Created(); !maps.Equal(before, after) {
		t.Errorf("plans have made %v of %v", after, before)
	}
	if now := s.Kubectl(t, "get", "clusters.plasmacloud.io", "shop", "-n", byoclab.Team, "-o", "jsonpath={.metadata.generation}"); now != generation {
		t.Errorf("plans have changed the cluster: generation %s, before %s", now, generation)
	}
}

// look makes the daemon compare what is in clouds at another interval.
func (s *scenario) look(t *testing.T, interval string) {
	t.Helper()
	s.Kubectl(t, "patch", "deployment/cloudd", "-n", byoclab.System, "--type=json", "-p", `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--drift-interval=`+interval+`"}]`)
	s.Kubectl(t, "rollout", "status", "deployment/cloudd", "-n", byoclab.System, "--timeout=100s")
	lab.Eventually(t, time.Minute, "the daemon that was started anew answers", func() error {
		_, err := s.TryCloud("account", "verify", "prod")
		return err
	})
}

// drift changes the network behind the platform's back: that is told, repaired when somebody asks for it, and by itself where
// the network says so.
func (s *scenario) drift(t *testing.T) {
	spoil := func() {
		s.stub.Change("subnetworks", func(subnet map[string]any) { subnet["privateIpGoogleAccess"] = false })
	}
	spoilt := func() (is bool) {
		s.stub.Change("subnetworks", func(subnet map[string]any) { is = subnet["privateIpGoogleAccess"] == false })
		return is
	}
	spoil()
	s.look(t, "15s")
	s.condition(t, "network", "main", v1alpha1.ConditionDrifted, "True Drifted", "google_compute_subnetwork.this")
	s.condition(t, "cluster", "shop", v1alpha1.ConditionDrifted, "False InSync", "")
	s.Cloud(t, "vpc", "repair", "main", "--wait")
	if spoilt() {
		t.Error("its repair has not put it right")
	}
	s.condition(t, "network", "main", v1alpha1.ConditionDrifted, "False InSync", "")
	s.Kubectl(t, "patch", "network", "main", "-n", byoclab.Team, "--type=merge", "-p", `{"spec":{"repairDrift":true}}`)
	s.AwaitRunning(t, "network", "main")
	spoil()
	lab.Eventually(t, 4*time.Minute, "it is put right by itself", func() error {
		if spoilt() {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	s.look(t, "0")
}

// cancelled cancels a task in its midst: its deployer ends, its state is kept, and the next operation goes on.
func (s *scenario) cancelled(t *testing.T) {
	before := s.stub.Created()["networks"]
	s.Cloud(t, "vpc", "create", "--name", "third", "--account", "prod", "--cidr", "10.2.0.0/16")
	lab.Eventually(t, 2*time.Minute, "something is made", func() error {
		if made := s.stub.Created()["networks"]; made == before {
			return fmt.Errorf("%d networks", made)
		}
		return nil
	})
	task := s.Kubectl(t, "get", "network", "third", "-n", byoclab.Team, "-o", "jsonpath={.status.task}")
	s.Cloud(t, "task", "cancel", task)
	lab.Eventually(t, 2*time.Minute, "it is cancelled", func() error {
		phase, err := s.TryKubectl("get", "task", task, "-n", byoclab.Team, "-o", "jsonpath={.status.phase}")
		if err == nil && phase != "Cancelled" {
			err = fmt.Errorf("it is %s", phase)
		}
		return err
	})
	s.Cloud(t, "vpc", "repair", "third", "--agree-to", "*", "--wait") // what was cut short is made anew
	byoclab.Has(t, s.stub.Inventory(), map[string]int{"networks": 2, "subnetworks": 2, "routers": 2})
	s.Cloud(t, "vpc", "delete", "third", "--yes", "--wait")
}

// renewed gives the account other credentials, which the next operation uses.
func (s *scenario) renewed(t *testing.T) {
	s.stub.SetToken(renewed)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(renewed), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cloud(t, "account", "set-credentials", "prod", "--credentials-file", file)
	if shown := s.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("verify says\n%s", shown)
	}
	s.Cloud(t, "k8s", "repair", "shop", "--wait")
}
