package testapi

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

// childEnv makes the test binary start a server, say so, and wait to be killed.
const childEnv = "TESTAPI_CHILD"

var api *Server

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		server, err := Start(Options{WithoutCRDs: true})
		if err != nil {
			panic(err)
		}
		fmt.Println(server.dir)
		select {}
	}
	os.Exit(Main(m, &api))
}

func TestServesKubernetesAndOurKinds(t *testing.T) {
	clients, err := discovery.NewDiscoveryClientForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	resources, err := clients.ServerResourcesForGroupVersion("plasmacloud.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, resource := range resources.APIResources {
		kinds[resource.Kind] = true
	}
	for _, kind := range []string{"Organization", "Project", "User", "AccessToken", "Account", "Network", "Cluster", "NodeGroup", "Machine", "Task"} {
		if !kinds[kind] {
			t.Errorf("%s is not served", kind)
		}
	}
}

func TestUsersAreWhoTheirCertificateSays(t *testing.T) {
	namespace := api.Namespace(t)
	clients, err := kubernetes.NewForConfig(api.ConfigFor(t, "alice", "team-a"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice"`) {
		t.Fatalf("alice may do everything: %v", err)
	}
}

func TestControllersRunWhereAskedFor(t *testing.T) {
	server := New(t, Options{Controllers: []string{"namespace-controller"}, WithoutCRDs: true})
	name := server.Namespace(t)
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := clients.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the namespace is still there: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestNothingIsLeftWhenTheTestsAreKilled(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, err := output.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(buffer[:n]))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var pids []int
	for _, program := range []string{"etcd", "kube-apiserver"} {
		content, err := os.ReadFile(dir + "/" + program + ".pid")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.Fields(string(content))[0])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	deadline := time.Now().Add(30 * time.Second)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
