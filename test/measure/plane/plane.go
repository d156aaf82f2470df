// Package plane is a management plane to be measured: a real API server and etcd, and the real cloudd as a process of its
// own, set up as `cloud up` does it. etcd does not wait for the disk.
package plane

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
	"sync"
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
	// System is the platform's own namespace.
	System       = "plasmacloud-system"
	platformUser = "system:serviceaccount:" + System + ":cloudd"
)

// The programs that are watched.
const (
	Cloudd    = "cloudd"
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
)

// Plane is a management plane, and the means to look at it.
type Plane struct {
	API    *testapi.Server
	Scheme *runtime.Scheme
	// Client has all rights.
	Client client.Client
	// Catalogue is what the installation offers.
	Catalogue *catalogue.Catalogue
	// Ports of cloudd, by what they serve: iam, admission, health, metrics, pprof.
	Ports    map[string]int
	programs map[string]int // pids by name
	token    string         // of who reads metrics
}

// New starts an API server and installs what `cloud up` does. Types are what cloudd offers. cloudd does not run yet.
func New(t testing.TB, types ...catalogue.ClusterType) *Plane {
	t.Helper()
	p := &Plane{
		// Deleted clusters leave tasks to the garbage collector, as they do in a real cluster.
		API:    testapi.New(t, testapi.Options{Controllers: []string{"garbage-collector-controller", "namespace-controller"}}),
		Scheme: runtime.NewScheme(),
		Ports:  map[string]int{},
	}
	Must(t, errors.Join(clientgoscheme.AddToScheme(p.Scheme), v1alpha1.AddToScheme(p.Scheme)))
	var err error
	p.Client, err = client.New(p.API.Config(), client.Options{Scheme: p.Scheme})
	Must(t, err)
	p.install(t, types)
	return p
}

// install applies what `cloud up` does: permissions and the catalogue.
func (p *Plane) install(t testing.TB, types []catalogue.ClusterType) {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(p.API.Config())
	Must(t, err)
	access, err := apply.Render(os.DirFS("../../../internal/install"), "manifests/access.yaml", nil)
	Must(t, err)
	Must(t, apply.Objects(t.Context(), dynamicClient, "bench", access...))
	offered, err := catalogue.New(releaseOf(t).Versions(), types)
	Must(t, err)
	offered.Images = map[string]map[string]string{} // nobody runs them here
	for _, version := range offered.KubernetesVersions {
		offered.Images[version] = map[string]string{}
		for _, name := range []string{
			"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", release.ImageKonnectivityServer,
			release.ImageKonnectivityAgent, release.ImageCoreDNS, release.ImageNode,
		} {
			offered.Images[version][name] = "bench.invalid/" + name
		}
	}
	p.Catalogue = offered
	content, err := offered.Render()
	Must(t, err)
	Must(t, p.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: System, Name: catalogue.ConfigMapName},
		Data:       map[string]string{catalogue.ConfigMapKey: string(content)},
	}))
}

func releaseOf(t testing.TB) *release.Catalogue {
	t.Helper()
	dir := os.Getenv(release.EnvDir)
	if dir == "" {
		dir = "../../../_output/release"
	}
	opened, err := release.Open(dir)
	Must(t, err)
	return opened
}

// StartCloudd runs it with all roles and its defaults, except for the addresses and what the flags say, and waits until it
// is ready. It returns what ends it.
func (p *Plane) StartCloudd(t testing.TB, flags ...string) (stop func()) {
	t.Helper()
	listeners := map[string]net.Listener{}
	for _, name := range []string{"iam", "admission", "health", "metrics", "pprof"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Must(t, err)
		listeners[name], p.Ports[name] = listener, listener.Addr().(*net.TCPAddr).Port
	}
	for _, listener := range listeners {
		Must(t, listener.Close())
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	Must(t, err)
	args := append([]string{"--admission-names=127.0.0.1", "--scratch-dir=" + dir}, flags...)
	for name, port := range p.Ports {
		args = append(args, fmt.Sprintf("--%s-bind-address=127.0.0.1:%d", name, port))
	}
	command := exec.Command(filepath.Join(releaseOf(t).Dir(), "bin", Cloudd), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig(t, dir))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	Must(t, command.Start())
	stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
		err := command.Wait()
		kill.Stop()
		if err != nil || t.Failed() {
			content, _ := os.ReadFile(log.Name())
			t.Errorf("cloudd ended: %v\n%s", err, content[max(0, len(content)-4096):])
		}
	})
	t.Cleanup(stop)
	Eventually(t, "cloudd is ready", func() error {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.Ports["health"]))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			return errors.New(string(answer))
		}
		return nil
	})
	p.programs = children(t)
	return stop
}

// kubeconfig is cloudd's own access, with no more rights than `cloud up` gives it.
func (p *Plane) kubeconfig(t testing.TB, dir string) string {
	t.Helper()
	access := p.API.ConfigFor(t, platformUser, "system:serviceaccounts", "system:serviceaccounts:"+System, "system:authenticated")
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthority: access.CAFile}
	config.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificate: access.CertFile, ClientKey: access.KeyFile}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	path := filepath.Join(dir, "kubeconfig")
	Must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// EnableAdmission makes the API server ask cloudd, and makes sure that it does.
func (p *Plane) EnableAdmission(t testing.TB) {
	t.Helper()
	secret := &corev1.Secret{}
	Eventually(t, "cloudd's authority", func() error {
		return p.Client.Get(t.Context(), client.ObjectKey{Namespace: System, Name: authority.SecretName}, secret)
	})
	url := fmt.Sprintf("https://127.0.0.1:%d%s", p.Ports["admission"], admission.Path)
	endpoint := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: secret.Data[corev1.ServiceAccountRootCAKey]}
	Must(t, p.Client.Create(t.Context(), admission.Configuration(endpoint, platformUser)))
	stray := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray"}}
	Eventually(t, "admission", func() error {
		err := p.Client.Create(t.Context(), stray, client.DryRunAll)
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "no project's namespace") {
			return nil
		}
		return fmt.Errorf("want a refusal, got: %w", err)
	})
}

// Project makes a project with room for its clusters, and what they need in it, and waits until they can be made.
func (p *Plane) Project(t testing.TB, organization, name string, quota *v1alpha1.Quota) {
	t.Helper()
	namespace := v1alpha1.NamespacePrefix + name
	Must(t, p.Client.Create(t.Context(), &v1alpha1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProjectSpec{Organization: organization, Quota: quota},
	}))
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "local"}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}}
	network := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	for _, object := range []client.Object{account, network} {
		Eventually(t, "make "+object.GetName(), func() error { return client.IgnoreAlreadyExists(p.Client.Create(t.Context(), object)) })
	}
	Eventually(t, "the network is ready", func() error {
		if err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(network), network); err != nil {
			return err
		}
		if network.Status.Phase != v1alpha1.PhaseRunning {
			return fmt.Errorf("it is %q", network.Status.Phase)
		}
		return nil
	})
}

// User is a client with a connection of its own.
func (p *Plane) User(t testing.TB) client.Client {
	t.Helper()
	config := rest.CopyConfig(p.API.Config())
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // which keeps it from sharing another one's
	own, err := client.New(config, client.Options{Scheme: p.Scheme, Mapper: p.Client.RESTMapper()})
	Must(t, err)
	return own
}

// Must ends the test where there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits a minute for a condition.
func Eventually(t testing.TB, what string, condition func() error) {
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
