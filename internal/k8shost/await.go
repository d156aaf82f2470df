package k8shost

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// AwaitNode waits until a node of the server in dir is Ready.
func AwaitNode(ctx context.Context, dir datadir.Dir, name string) error {
	client, err := clientOf(dir.AdminKubeconfig())
	if err != nil {
		return err
	}
	if err := awaitNode(ctx, client, name, isReady); err != nil {
		return fmt.Errorf("wait for node %s to be Ready: %w", name, err)
	}
	return nil
}

// awaitNode watches a node until it is there and satisfies want.
func awaitNode(ctx context.Context, client kubernetes.Interface, name string, want func(*corev1.Node) bool) error {
	nodes := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.OneTermEqualSelector("metadata.name", name))
	_, err := watchtools.UntilWithSync(ctx, nodes, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, ok := event.Object.(*corev1.Node)
		return ok && event.Type != watch.Deleted && want(node), nil
	})
	return err
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
