//go:build bench

package k8shost

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// patience ends a measurement that leads nowhere.
const patience = 4 * time.Minute

// start is how long after its start a server reached what users wait for.
type start struct{ api, node, pod time.Duration }

// measureStart starts a server on a new node and looks at it through the API, as an administrator would.
func measureStart(t *testing.T, node *lab.Node) start {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var s start
	began := time.Now()
	node.Launch(t, "server")
	client, err := awaitAPI(ctx, node)
	if err != nil {
		t.Fatalf("wait for the API: %v\n%s", err, node.Output())
	}
	s.api = time.Since(began)

	nodeReady := make(chan error, 1)
	go func() {
		err := await(ctx, client, "nodes", "", node.Name, &corev1.Node{}, isReady)
		s.node = time.Since(began)
		nodeReady <- err
	}()
	if err := createPod(ctx, client); err != nil {
		t.Fatalf("create the first pod: %v", err)
	}
	if err := await(ctx, client, "pods", metav1.NamespaceDefault, "first", &corev1.Pod{}, isRunning); err != nil {
		t.Fatalf("wait for the first pod: %v", err)
	}
	s.pod = time.Since(began)
	if err := <-nodeReady; err != nil {
		t.Fatalf("wait for the node: %v", err)
	}
	return s
}

// awaitAPI returns a client as soon as the administrator's kubeconfig is there and /readyz says ok.
func awaitAPI(ctx context.Context, node *lab.Node) (kubernetes.Interface, error) {
	var client *kubernetes.Clientset
	err := poll(ctx, func() error {
		if client == nil {
			kubeconfig, err := os.ReadFile(node.Data.AdminKubeconfig())
			if err != nil {
				return err
			}
			config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
			if err != nil {
				return err
			}
			config.Dial, config.QPS = node.Dial, -1
			if client, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return client, err
}

// createPod creates the first pod as soon as the API takes it: it wants the namespace's service account.
func createPod(ctx context.Context, client kubernetes.Interface) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "first", Image: lab.Toolbox, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "infinity"},
			}},
		},
	}
	return poll(ctx, func() error {
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// await watches one object until a condition holds.
func await(ctx context.Context, client kubernetes.Interface, resource, namespace, name string, kind runtime.Object, holds func(runtime.Object) bool) error {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), resource, namespace, fields.OneTermEqualSelector("metadata.name", name))
	_, err := watchtools.UntilWithSync(ctx, source, kind, nil, func(event watch.Event) (bool, error) {
		if event.Type == watch.Deleted {
			return false, fmt.Errorf("%s %s was deleted", resource, name)
		}
		return holds(event.Object), nil
	})
	return err
}

func isReady(object runtime.Object) bool {
	for _, condition := range object.(*corev1.Node).Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isRunning(object runtime.Object) bool {
	return object.(*corev1.Pod).Status.Phase == corev1.PodRunning
}

// poll tries often until it works. Its last error tells why it did not.
func poll(ctx context.Context, try func() error) error {
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
