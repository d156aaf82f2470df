package encryption

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// page is how many Secrets are asked for at once.
const page = 500

// rewrite has the API server store every Secret anew, and returns how many there are. A change of nothing is enough: the
// API server writes an object whose stored form it would no longer write itself, and leaves the others alone. No Secret's
// content comes here.
func (r *Rotation) rewrite(ctx context.Context) (int, error) {
	secrets := r.Objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	done, next := 0, ""
	for {
		list, err := secrets.List(ctx, metav1.ListOptions{Limit: page, Continue: next})
		if apierrors.IsResourceExpired(err) && next != "" {
			// It took so long that the list is no longer kept. What is done already costs little the second time.
			done, next = 0, ""
			continue
		}
		if err != nil {
			return done, fmt.Errorf("list Secrets: %w", err)
		}
		for i := range list.Items {
			name, namespace := list.Items[i].Name, list.Items[i].Namespace
			_, err := secrets.Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "k8shost"})
			// One that others change all the time is written by them.
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return done, fmt.Errorf("encrypt Secret %s/%s anew: %w", namespace, name, err)
			}
			done++
		}
		next = list.Continue
		total := done
		if list.RemainingItemCount != nil {
			total += int(*list.RemainingItemCount)
		}
		r.Report(fmt.Sprintf("encrypted %d of %d Secrets anew", done, total))
		if next == "" {
			return done, nil
		}
	}
}
