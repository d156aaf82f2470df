//go:build bench

package k8shost

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

// start is how long after its start a server reached what users wait for.
type start struct{ api, node, pod time.Duration }

// measureStart starts a server on a new node and looks at it through the API, as an administrator would.
func measureStart(t *testing.T, node *lab.Node) start {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), measure.Patience)
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
		err := measure.Await(ctx, client, "nodes", "", node.Name, &corev1.Node{}, measure.IsReady)
		s.node = time.Since(began)
		nodeReady <- err
	}()
	if err := measure.CreatePod(ctx, client); err != nil {
		t.Fatalf("create the first pod: %v", err)
	}
	if err := measure.Await(ctx, client, "pods", metav1.NamespaceDefault, "first", &corev1.Pod{}, measure.IsRunning); err != nil {
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
	err := measure.Poll(ctx, func() error {
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
