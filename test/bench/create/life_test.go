//go:build bench

package create

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

const project = "project-default"

// life is how long a cluster's stages took, from the command that began them.
type life struct{ api, node, pod, running, deleted time.Duration }

// management is the management cluster's API.
type management struct {
	client.WithWatch
	core kubernetes.Interface
}

func connect(t *testing.T, host *lab.Node, kubeconfig string) management {
	t.Helper()
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := restConfig(t, host, content)
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(api.Scheme()); err != nil {
		t.Fatal(err)
	}
	return management{WithWatch: api, core: core}
}

func restConfig(t *testing.T, host *lab.Node, kubeconfig []byte) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Dial, config.QPS = host.Dial, -1
	return config
}

func measureLife(t *testing.T, host *lab.Node, api management, name string) life {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), measure.Patience)
	defer cancel()
	var l life
	began := time.Now()
	host.Cloud(t, "k8s", "create", "--name", name, "--workers", "1")
	running := make(chan error, 1)
	go func() {
		_, err := api.await(ctx, name, isRunning)
		l.running = time.Since(began)
		running <- err
	}()
	if err := api.answers(ctx, host, name); err != nil {
		t.Fatalf("wait for the API of %s: %v", name, err)
	}
	l.api = time.Since(began)
	tenant, err := kubernetes.NewForConfig(restConfig(t, host, api.kubeconfig(ctx, t, name)))
	if err != nil {
		t.Fatal(err)
	}
	nodeReady := make(chan error, 1)
	go func() {
		err := measure.Await(ctx, tenant, "nodes", "", "", &corev1.Node{}, measure.IsReady)
		l.node = time.Since(began)
		nodeReady <- err
	}()
	if err := createPod(ctx, tenant); err != nil {
		t.Fatalf("create the first pod: %v", err)
	}
	if err := measure.Await(ctx, tenant, "pods", metav1.NamespaceDefault, "first", &corev1.Pod{}, measure.IsRunning); err != nil {
		t.Fatalf("wait for the first pod: %v", err)
	}
	l.pod = time.Since(began)
	if err := errors.Join(<-nodeReady, <-running); err != nil {
		t.Fatal(err)
	}
	l.deleted = api.remove(ctx, t, host, name)
	return l
}

// remove deletes clusters and waits until nothing is left of them.
func (m management) remove(ctx context.Context, t *testing.T, host *lab.Node, names ...string) time.Duration {
	t.Helper()
	began := time.Now()
	host.Cloud(t, append([]string{"k8s", "delete", "--yes"}, names...)...)
	err := measure.Poll(ctx, func() error {
		for _, name := range names {
			err := m.Get(ctx, types.NamespacedName{Namespace: project, Name: name}, &v1alpha1.Cluster{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("cluster %s is there: %w", name, err)
			}
			left, err := m.core.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelCluster + "=" + name})
			if err != nil || len(left.Items) > 0 {
				return fmt.Errorf("the namespace of %s is there: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// await watches a cluster until a condition holds.
func (m management) await(ctx context.Context, name string, holds func(*v1alpha1.Cluster) bool) (*v1alpha1.Cluster, error) {
	watching, err := m.Watch(ctx, &v1alpha1.ClusterList{}, client.InNamespace(project), client.MatchingFields{"metadata.name": name})
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if c, ok := event.Object.(*v1alpha1.Cluster); ok && holds(c) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("the watch of cluster %s ended: %w", name, ctx.Err())
}

func isRunning(c *v1alpha1.Cluster) bool { return c.Status.Phase == v1alpha1.PhaseRunning }

// answers returns when the cluster's API says that it is ready, which it tells anybody. It asks on one connection:
// greeting a server anew each time costs it more than the question.
func (m management) answers(ctx context.Context, host *lab.Node, name string) error {
	c, err := m.await(ctx, name, func(c *v1alpha1.Cluster) bool { return c.Status.Endpoint != "" })
	if err != nil {
		return err
	}
	asking := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DialContext: host.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // nothing is said, and nothing believed
	}}
	defer asking.CloseIdleConnections()
	return measure.Poll(ctx, func() error {
		response, err := asking.Get(c.Status.Endpoint + "/readyz")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

func (m management) kubeconfig(ctx context.Context, t *testing.T, name string) []byte {
	t.Helper()
	var content []byte
	err := measure.Poll(ctx, func() error {
		secret, err := m.core.CoreV1().Secrets(project).Get(ctx, v1alpha1.AdminKubeconfigSecret(name), metav1.GetOptions{})
		if err == nil {
			content = secret.Data[v1alpha1.KubeconfigAdmin]
		}
		return err
	})
	if err != nil {
		t.Fatalf("wait for the kubeconfig of %s: %v", name, err)
	}
	return content
}

// createPod creates a pod of an image that every node brings along.
func createPod(ctx context.Context, tenant kubernetes.Interface) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "first", Image: "registry.k8s.io/pause:3.10.2", ImagePullPolicy: corev1.PullNever}},
		},
	}
	return measure.Poll(ctx, func() error {
		_, err := tenant.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// crowd is control planes that were started at once.
type crowd struct {
	size    int
	running time.Duration
	memory  float64 // private, of each, in MB
}

// programs are what a control plane consists of.
var programs = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "proxy-server"}

func measureCrowd(t *testing.T, host *lab.Node, api management, size int) crowd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*measure.Patience)
	defer cancel()
	names := make([]string, size)
	began := time.Now()
	for i := range names {
		names[i] = "crowd-" + strconv.Itoa(i)
		host.Cloud(t, "k8s", "create", "--name", names[i], "--workers", "0", "--control-plane-replicas", "1")
	}
	for _, name := range names {
		if _, err := api.await(ctx, name, isRunning); err != nil {
			t.Fatalf("wait for %s: %v", name, err)
		}
	}
	c := crowd{size: size, running: time.Since(began)}
	<-time.After(idle)
	_, pods, err := measure.PodPrograms(host)
	if err != nil {
		t.Fatal(err)
	}
	var private int64
	for _, p := range pods {
		if slices.ContainsFunc(programs, func(name string) bool { return strings.HasPrefix(p.Name, name) }) {
			private += p.Private
		}
	}
	c.memory = float64(private) / float64(size) / measure.Mebibyte
	api.remove(ctx, t, host, names...)
	return c
}
