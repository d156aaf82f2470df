package cli

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// A cluster's status is written all the time while something is being made; that keeps nobody from scaling it. What
// somebody else has changed in its spec does.
func TestOnlyAnotherWishIsAConflict(t *testing.T) {
	for _, spec := range []bool{false, true} {
		w := newWorld(t)
		patches := 0
		w.refuse = func(verb string, object client.Object) error {
			cluster, ok := object.(*v1alpha1.Cluster)
			if verb != "patch" || !ok {
				return nil
			}
			if patches++; patches > 1 {
				return nil
			}
			latest := &v1alpha1.Cluster{}
			key := client.ObjectKeyFromObject(cluster)
			if err := w.api.Get(t.Context(), key, latest); err != nil {
				return err
			}
			latest.Status.Progress = "1/8"
			if spec {
				latest.Generation++
			}
			if err := w.api.Update(t.Context(), latest); err != nil {
				return err
			}
			return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "clusters"}, key.Name, errors.New("modified"))
		}
		have := w.run("k8s", "scale", "big", "--group", "web", "--replicas", "3")
		if !spec && (have.code != 0 || patches != 2) {
			t.Errorf("the status was written: %d attempts, %+v", patches, have)
		}
		if spec && (have.code == 0 || patches != 1 || !strings.Contains(have.err, "changed by somebody else")) {
			t.Errorf("the spec was changed: %d attempts, %+v", patches, have)
		}
	}
}
