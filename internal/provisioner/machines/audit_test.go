package machines

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// audit returns what is found besides what the hosts of these tests always have.
func (w *world) audit(thorough bool) (others, hosts []v1alpha1.Finding) {
	w.t.Helper()
	all, err := w.provisioner.Audit(w.t.Context(), w.cluster, thorough)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, finding := range all {
		if finding.Check == "kubelet" {
			hosts = append(hosts, finding)
		} else {
			others = append(others, finding)
		}
	}
	return others, hosts
}

func TestAuditAsksTheControlPlanesMachines(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	others, hosts := w.audit(true)
	if len(others) != 0 {
		t.Errorf("a new cluster: %v", others)
	}
	if len(hosts) != 3 || !hosts[0].Repairable || !slices.Contains(names(w.machines()), hosts[0].Subject) {
		t.Errorf("%+v", hosts)
	}
}

func TestAuditTellsWhoIsLostAndWhetherOthersCanGoOn(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	members := w.members()
	for lost, want := range []struct {
		repairable, risk bool
		says             string
	}{
		{true, false, "of the control plane is lost"},
		{true, true, "only 1 of 3 members"},
		{true, true, "begin anew and empty"},
	} {
		w.lose(members[lost].Name)
		found, hosts := w.audit(false)
		if len(found) != lost+1 || len(hosts) != 2-lost {
			t.Fatalf("%d are lost: %v, %v", lost+1, found, hosts)
		}
		for _, finding := range found {
			if finding.Repairable != want.repairable || (finding.Risk != "") != want.risk || !strings.Contains(finding.Message+finding.Risk, want.says) {
				t.Errorf("%d are lost: %+v", lost+1, finding)
			}
			if want.risk && !strings.Contains(finding.Remedy, "backup") {
				t.Errorf("%d are lost, and nobody says what to do: %+v", lost+1, finding)
			}
		}
	}
}

func TestAuditSeesWhatSomebodyChanged(t *testing.T) {
	w := newWorld(t, 1)
	w.run(v1alpha1.OperationCreate, created...)
	deployments := w.client.AppsV1().Deployments(w.home)
	for name, harm := range map[string]func() error{
		"balancer removed": func() error { return deployments.Delete(t.Context(), balancer.Name, metav1.DeleteOptions{}) },
		"balancer scaled": func() error {
			_, err := deployments.Patch(t.Context(), balancer.Name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
			return err
		},
		"service removed": func() error {
			return w.client.CoreV1().Services(w.home).Delete(t.Context(), base.ServiceName, metav1.DeleteOptions{})
		},
		"policy removed": func() error {
			return w.client.NetworkingV1().NetworkPolicies(w.home).Delete(t.Context(), v1alpha1.ComponentMachine, metav1.DeleteOptions{})
		},
		"kubeconfigs removed": func() error {
			return w.client.CoreV1().Secrets(w.home).Delete(t.Context(), base.KubeconfigSecret, metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := harm(); err != nil {
				t.Fatal(err)
			}
			if quick, _ := w.audit(false); len(quick) != 0 {
				t.Errorf("a quick look finds %v", quick)
			}
			found, _ := w.audit(true)
			if len(found) == 0 || !found[0].Repairable {
				t.Fatalf("%v", found)
			}
			w.run(v1alpha1.OperationRepair, repaired...)
			if found, _ := w.audit(true); len(found) != 0 {
				t.Errorf("after a repair: %v", found)
			}
		})
	}
}
