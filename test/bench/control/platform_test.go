//go:build bench

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

const (
	system       = "plasmacloud-system"
	platformUser = "system:serviceaccount:" + system + ":cloudd"
)

// bench is a management plane, and the means to look at it.
type bench struct {
	api      *testapi.Server
	scheme   *runtime.Scheme
	client   client.Client
	ports    map[string]int
	programs map[string]int // pids by name
}

// newBench starts an API server and cloudd as `cloud up` would.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		// Deleted clusters leave tasks to the garbage collector, as they do in a real cluster.
		api:    testapi.New(t, testapi.Options{Controllers: []string{"garbage-collector-controller", "namespace-controller"}}),
		scheme: runtime.NewScheme(),
		ports:  map[string]int{},
	}
	must(t, errors.Join(clientgoscheme.AddToScheme(b.scheme), v1alpha1.AddToScheme(b.scheme)))
	var err error
	b.client, err = client.New(b.api.Config(), client.Options{Scheme: b.scheme})
	must(t, err)
	b.install(t)
	b.startCloudd(t)
	b.enableAdmission(t)
	b.programs = children(t)
	return b
}

// install applies what `cloud up` does: permissions and the catalogue.
func (b *bench) install(t *testing.T) {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(b.api.Config())
	must(t, err)
	access, err := apply.Render(os.DirFS("../../../internal/install"), "manifests/access.yaml", nil)
	must(t, err)
	must(t, apply.Objects(t.Context(), dynamicClient, "bench", access...))
	offered, err := catalogue.New(releaseOf(t).Versions(), []catalogue.ClusterType{{Name: v1alpha1.ClusterFake, Capabilities: []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale,
	}}})
	must(t, err)
	offered.Images = map[string]map[string]string{} // of hosted clusters, which there are none of
	for _, version := range offered.KubernetesVersions {
		offered.Images[version] = map[string]string{"etcd": "bench.invalid/etcd"}
	}
	content, err := offered.Render()
	must(t, err)
	must(t, b.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: catalogue.ConfigMapName},
		Data:       map[string]string{catalogue.ConfigMapKey: string(content)},
	}))
}

func releaseOf(t *testing.T) *release.Catalogue {
	t.Helper()
	dir := os.Getenv(release.EnvDir)
	if dir == "" {
		dir = "../../../_output/release"
	}
	opened, err := release.Open(dir)
	must(t, err)
	return opened
}

// startCloudd runs it with all roles and its defaults, except for the addresses.
func (b *bench) startCloudd(t *testing.T) {
	t.Helper()
	listeners := map[string]net.Listener{}
	for _, name := range []string{"iam", "admission", "health", "metrics", "pprof"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		listeners[name], b.ports[name] = listener, listener.Addr().(*net.TCPAddr).Port
	}
	for _, listener := range listeners {
		must(t, listener.Close())
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	args := []string{"--admission-names=127.0.0.1", "--scratch-dir=" + dir}
	for name, port := range b.ports {
		args = append(args, fmt.Sprintf("--%s-bind-address=127.0.0.1:%d", name, port))
	}
	if step := os.Getenv("BENCH_CONTROL_STEP"); step != "" {
		args = append(args, "--fake-step-duration="+step)
	}
	command := exec.Command(filepath.Join(releaseOf(t).Dir(), "bin", cloudd), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig(t, dir))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
		err := command.Wait()
		kill.Stop()
		if err != nil || t.Failed() {
			content, _ := os.ReadFile(log.Name())
			t.Errorf("cloudd ended: %v\n%s", err, content[max(0, len(content)-4096):])
		}
	})
	eventually(t, "cloudd is ready", func() error {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", b.ports["health"]))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			return errors.New(string(answer))
		}
		return nil
	})
}

// kubeconfig is cloudd's own access, with no more rights than `cloud up` gives it.
func (b *bench) kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	access := b.api.ConfigFor(t, platformUser, "system:serviceaccounts", "system:serviceaccounts:"+system, "system:authenticated")
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthority: access.CAFile}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificate: access.CertFile, ClientKey: access.KeyFile}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	path := filepath.Join(dir, "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// enableAdmission makes the API server ask cloudd, and makes sure that it does.
func (b *bench) enableAdmission(t *testing.T) {
	t.Helper()
	secret := &corev1.Secret{}
	eventually(t, "cloudd's authority", func() error {
		return b.client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: authority.SecretName}, secret)
	})
	url := fmt.Sprintf("https://127.0.0.1:%d%s", b.ports["admission"], admission.Path)
	endpoint := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: secret.Data[corev1.ServiceAccountRootCAKey]}
	must(t, b.client.Create(t.Context(), admission.Configuration(endpoint, platformUser)))
	stray := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray"}}
	eventually(t, "admission", func() error {
		err := b.client.Create(t.Context(), stray, client.DryRunAll)
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "no project's namespace") {
			return nil
		}
		return fmt.Errorf("want a refusal, got: %w", err)
	})
}

// project makes a project with room for its clusters, and what they need in it.
func (b *bench) project(t *testing.T, name string) {
	t.Helper()
	namespace := v1alpha1.NamespacePrefix + name
	must(t, b.client.Create(t.Context(), &v1alpha1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProjectSpec{Organization: organization, Quota: plenty()},
	}))
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}}
	network := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	for _, object := range []client.Object{account, network} {
		eventually(t, "make "+object.GetName(), func() error { return client.IgnoreAlreadyExists(b.client.Create(t.Context(), object)) })
	}
	eventually(t, "the network is ready", func() error {
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(network), network); err != nil {
			return err
		}
		if network.Status.Phase != v1alpha1.PhaseRunning {
			return fmt.Errorf("it is %q", network.Status.Phase)
		}
		return nil
	})
}

// user is a client with a connection of its own.
func (b *bench) user(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(b.api.Config())
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // which keeps it from sharing another one's
	own, err := client.New(config, client.Options{Scheme: b.scheme, Mapper: b.client.RESTMapper()})
	must(t, err)
	return own
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("in vain: %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
