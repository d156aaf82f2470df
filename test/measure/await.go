package measure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// Patience ends a measurement that leads nowhere.
const Patience = 4 * time.Minute

// CreatePod creates the first pod as soon as the API takes it: it wants the namespace's service account.
func CreatePod(ctx context.Context, client kubernetes.Interface) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "first", Image: lab.Toolbox, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "infinity"},
			}},
		},
	}
	return Poll(ctx, func() error {
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// Await watches one object, or all where none is named, until a condition holds for one.
func Await(ctx context.Context, client kubernetes.Interface, resource, namespace, name string, kind runtime.Object, holds func(runtime.Object) bool) error {
	which := fields.Everything()
	if name != "" {
		which = fields.OneTermEqualSelector("metadata.name", name)
	}
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), resource, namespace, which)
	_, err := watchtools.UntilWithSync(ctx, source, kind, nil, func(event watch.Event) (bool, error) {
		if event.Type == watch.Deleted {
			return false, fmt.Errorf("%s %s was deleted", resource, name)
		}
		return holds(event.Object), nil
	})
	return err
}

// IsReady tells whether a node is.
func IsReady(object runtime.Object) bool {
	for _, condition := range object.(*corev1.Node).Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// IsRunning tells whether a pod is.
func IsRunning(object runtime.Object) bool {
	return object.(*corev1.Pod).Status.Phase == corev1.PodRunning
}

// Poll tries often until it works. Its last error tells why it did not.
func Poll(ctx context.Context, try func() error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
