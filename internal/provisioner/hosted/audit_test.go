package hosted

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

func (w *world) drift() string {
	w.t.Helper()
	findings, err := w.provisioner.Audit(w.t.Context(), w.cluster, true)
	if err != nil {
		w.t.Fatal(err)
	}
	var found []string
	for _, finding := range findings {
		if !finding.Repairable {
			w.t.Errorf("%s cannot be repaired", finding)
		}
		found = append(found, finding.String())
	}
	return strings.Join(found, "; ")
}

// settle ends an operation as its last step does.
func (w *world) settle() {
	w.t.Helper()
	b := w.build("nodes")
	if _, err := b.scaleOut(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.setDeploymentReady()
	if done, waitsFor, err := b.allReplicas(w.t.Context(), false); err != nil || !done {
		w.t.Fatal(waitsFor, err)
	}
}

func TestDriftIsSeenAndMended(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	w.cluster.Status.Version = version
	w.settle()
	if what := w.drift(); what != "" {
		t.Fatalf("a new control plane differs: %s", what)
	}
	patch := func(text string) func() error {
		return func() error {
			_, err := w.client.AppsV1().Deployments(w.namespace).Patch(t.Context(), controlPlaneName, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
	}
	secrets, core := w.client.CoreV1().Secrets(w.namespace), w.client.CoreV1()
	for name, harm := range map[string]func() error{
		"deployment scaled":   patch(`{"spec":{"replicas":5}}`),
		"deployment edited":   patch(`{"spec":{"template":{"spec":{"priorityClassName":"system-node-critical"}}}}`),
		"deployment extended": patch(`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`),
		"deployment removed": func() error {
			return w.client.AppsV1().Deployments(w.namespace).Delete(t.Context(), controlPlaneName, metav1.DeleteOptions{})
		},
		"files removed":      func() error { return secrets.Delete(t.Context(), controlPlaneName, metav1.DeleteOptions{}) },
		"authority removed":  func() error { return secrets.Delete(t.Context(), pkiSecretName, metav1.DeleteOptions{}) },
		"kubeconfig removed": func() error { return secrets.Delete(t.Context(), base.KubeconfigSecret, metav1.DeleteOptions{}) },
		"service edited": func() error {
			_, err := core.Services(w.namespace).Patch(t.Context(), controlPlaneName, types.MergePatchType, []byte(`{"spec":{"selector":{"plasmacloud.io/component":"other"}}}`), metav1.PatchOptions{})
			return err
		},
		"policy removed": func() error {
			return w.client.NetworkingV1().NetworkPolicies(w.namespace).Delete(t.Context(), v1alpha1.ComponentMachine, metav1.DeleteOptions{})
		},
		"budget removed": func() error {
			return w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Delete(t.Context(), controlPlaneName, metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := harm(); err != nil {
				t.Fatal(err)
			}
			if what := w.drift(); what == "" {
				t.Error("nobody notices")
			}
			w.run(v1alpha1.OperationRepair, created...)
			w.settle()
			if what := w.drift(); what != "" {
				t.Errorf("after a repair: %s", what)
			}
		})
	}
}

// A cluster's identity is never made anew: nodes and users would be shut out.
func TestLostAuthoritiesAreNotReplaced(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	w.cluster.Status.Version = version
	for _, name := range []string{pkiSecretName, controlPlaneName} {
		if err := w.client.CoreV1().Secrets(w.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	findings, err := w.provisioner.Audit(t.Context(), w.cluster, true)
	if err != nil || len(findings) != 1 || findings[0].Repairable || findings[0].Remedy == "" {
		t.Errorf("%v: %v", findings, err)
	}
	err = w.try(t.Context(), v1alpha1.OperationRepair, "certificates")
	if !task.IsPermanent(err) {
		t.Errorf("%v is tried again", err)
	}
	mentions(t, err, pkiSecretName, w.namespace, "backup")
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	w.settle()
	later := clocktesting.NewFakeClock(time.Now().Add(pki.LeafLifetime * 3 / 4))
	w.provisioner.Clock = later
	if what := w.drift(); !strings.Contains(what, "due for renewal") {
		t.Fatalf("%q", what)
	}
	before := w.deployment().Spec.Template.Annotations[annotationFingerprint]
	w.run(v1alpha1.OperationRepair, created...)
	w.settle()
	if what := w.drift(); what != "" {
		t.Errorf("after a repair: %s", what)
	}
	if w.deployment().Spec.Template.Annotations[annotationFingerprint] == before {
		t.Error("the pods keep their old certificates")
	}
}
