package cloudd

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestTheLeaderCountsClustersByPhase(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var clusters []client.Object
	for name, phase := range map[string]v1alpha1.Phase{"a": v1alpha1.PhaseRunning, "b": v1alpha1.PhaseRunning, "c": v1alpha1.PhaseFailed} {
		clusters = append(clusters, &v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "project-shop", Name: name},
			Spec:       v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake}, Status: v1alpha1.ClusterStatus{Phase: phase},
		})
	}
	elected := make(chan struct{})
	counted := newPhases(fake.NewClientBuilder().WithScheme(scheme).WithObjects(clusters...).Build(), elected)
	if n := testutil.CollectAndCount(counted); n != 0 {
		t.Errorf("%d metrics of a process that does not lead", n)
	}
	close(elected)
	want := `
# HELP plasmacloud_clusters Clusters, by type and phase.
# TYPE plasmacloud_clusters gauge
plasmacloud_clusters{phase="` + string(v1alpha1.PhaseFailed) + `",type="Fake"} 1
plasmacloud_clusters{phase="` + string(v1alpha1.PhaseRunning) + `",type="Fake"} 2
`
	if err := testutil.CollectAndCompare(counted, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
