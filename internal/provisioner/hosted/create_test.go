package hosted

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

func TestStepsAreDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	before := w.snapshot()
	w.run(v1alpha1.OperationCreate, created...)
	w.run(v1alpha1.OperationUpdate, created...)
	after := w.snapshot()
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			t.Errorf("%s was changed by steps that had nothing to do", name)
		}
	}
	if len(before) < 12 {
		t.Errorf("only these were made: %v", slices.Sorted(maps.Keys(before)))
	}
}

// A worker may be killed at any point: its successor begins the step anew, or the whole task.
func TestStepsCanBeCutOff(t *testing.T) {
	w := newWorld(t)
	for i := range created {
		for _, after := range []time.Duration{time.Millisecond, 8 * time.Millisecond, 30 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_ = w.try(ctx, v1alpha1.OperationCreate, created[i])
			cancel()
		}
		w.run(v1alpha1.OperationCreate, created[:i+1]...)
	}
	w.run(v1alpha1.OperationCreate, created...)
}

func TestOnePortEverywhere(t *testing.T) {
	w := newWorld(t, func(spec map[string]any) { spec["host"] = "dev.example.com" })
	w.run(v1alpha1.OperationCreate, created...)
	service, err := w.client.CoreV1().Services(w.namespace).Get(t.Context(), controlPlaneName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := service.Spec.Ports[0]
	if port.Name != base.PortAPI || port.NodePort == 0 || port.Port != port.NodePort || port.TargetPort.IntVal != port.NodePort {
		t.Errorf("%+v", port)
	}
	number := strconv.Itoa(int(port.NodePort))
	if got := w.outputs[provisioner.OutputEndpoint]; got != "https://dev.example.com:"+number {
		t.Errorf("endpoint %s", got)
	}
	if got := w.outputs[provisioner.OutputVersion]; got != version {
		t.Errorf("version %s", got)
	}
	joining, err := w.client.CoreV1().Secrets(w.namespace).Get(t.Context(), bootstrap.JoinSecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	join, err := bootstrap.ParseJoin(joining.Data[bootstrap.JoinSecretKey])
	if err != nil || join.Server != "https://192.0.2.1:"+number || join.KubernetesVersion != version || join.NodeImage == "" ||
		join.Konnectivity != "192.0.2.1:"+strconv.Itoa(int(service.Spec.Ports[1].NodePort)) {
		t.Errorf("%+v, %v", join, err)
	}
	args := strings.Join(w.container(containerAPIServer).Args, "\n")
	for _, want := range []string{"--secure-port=" + number, "--advertise-address=192.0.2.1", "--etcd-prefix=/tenants/" + w.namespace, "--authentication-token-webhook-config-file="} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in\n%s", want, args)
		}
	}
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	deployment, err := w.client.AppsV1().Deployments(w.namespace).Get(w.t.Context(), controlPlaneName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return deployment
}

func (w *world) container(name string) corev1.Container {
	w.t.Helper()
	pod := w.deployment().Spec.Template.Spec
	containers := slices.Concat(pod.InitContainers, pod.Containers)
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		w.t.Fatalf("there is no container %s", name)
	}
	return containers[at]
}

// Every file that a program is told of is there, and no program sees the keys of another.
func TestContainersSeeWhatTheyNeed(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	pod := w.deployment().Spec.Template.Spec
	seen := map[string][]string{}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		for _, item := range volume.Secret.Items {
			seen[volume.Name] = append(seen[volume.Name], item.Path)
		}
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, arg := range container.Args {
			_, value, _ := strings.Cut(arg, "=")
			name, isFile := strings.CutPrefix(value, "/etc/kubernetes/pki/")
			if isFile && !slices.Contains(seen[container.Name], name) {
				t.Errorf("%s is told of %s, which it does not see", container.Name, name)
			}
		}
		if slices.Contains(seen[container.Name], "ca.key") != (container.Name == containerControllerManager) {
			t.Errorf("%s sees %v", container.Name, seen[container.Name])
		}
	}
	for name, files := range seen {
		if slices.Contains(files, "super-admin.key") || slices.Contains(files, "admin.key") {
			t.Errorf("%s sees an administrator's key", name)
		}
	}
}

func TestControlPlaneIsRestricted(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	// The strictest of the API server's own standards is the judge.
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), home, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plane", Namespace: home.Name}, Spec: w.deployment().Spec.Template.Spec}
	if _, err := w.client.CoreV1().Pods(home.Name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}

func TestSizes(t *testing.T) {
	w := newWorld(t, func(spec map[string]any) {
		spec["controlPlane"] = map[string]any{
			"apiServer": map[string]any{"resourcesPreset": "large"},
			"scheduler": map[string]any{"resources": map[string]any{"cpu": "300m", "memory": "200Mi"}},
		}
	})
	w.run(v1alpha1.OperationCreate, created...)
	for name, want := range map[string][2]string{
		// A preset's CPU, twice: see cpuBurst.
		containerAPIServer: {"4", "2Gi"}, containerControllerManager: {"1", "256Mi"}, containerKonnectivity: {"1", "256Mi"},
		containerScheduler: {"300m", "200Mi"},
	} {
		limits := w.container(name).Resources.Limits
		if limits.Cpu().String() != want[0] || limits.Memory().String() != want[1] {
			t.Errorf("%s may use %s CPU and %s of memory, want %v", name, limits.Cpu(), limits.Memory(), want)
		}
	}
	if got := *w.deployment().Spec.Replicas; got != 1 {
		t.Errorf("a new control plane begins with %d replicas", got)
	}
}

func TestNewFilesReplaceThePods(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	before := w.deployment()
	w.cluster.Spec.Host = "other.example.com" // a name that the certificate lacks
	w.run(v1alpha1.OperationUpdate, created...)
	after := w.deployment()
	if before.Spec.Template.Annotations[annotationFingerprint] == after.Spec.Template.Annotations[annotationFingerprint] || before.Generation == after.Generation {
		t.Error("the pods keep a certificate without the new name")
	}
	secret, err := w.client.CoreV1().Secrets(w.namespace).Get(t.Context(), base.KubeconfigSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		v1alpha1.KubeconfigAdmin: "https://other.example.com:", v1alpha1.KubeconfigSuperAdmin: "https://other.example.com:",
		v1alpha1.KubeconfigAdminService: "https://control-plane." + w.namespace + ".svc:", v1alpha1.KubeconfigSuperAdminService: "https://control-plane." + w.namespace + ".svc:",
	} {
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[key])
		if err != nil || !strings.HasPrefix(config.Host, want) {
			t.Errorf("%s leads to %v, %v", key, config, err)
		}
	}
}

func TestVersionStaysUntilAsked(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ spec, running, want string }{
		{"", "", version}, {"v1.35", "", "v1.35.4"}, {"", "v1.35.4", "v1.35.4"}, {"v1.35", "v1.35.4", "v1.35.4"}, {"v1.36", "v1.35.4", version},
	} {
		w.cluster.Spec.Version, w.cluster.Status.Version = c.spec, c.running
		if got, err := w.build("").Version(w.offered); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	w.cluster.Spec.Version = "v1.99"
	err := w.try(t.Context(), v1alpha1.OperationCreate, "endpoint")
	if !task.IsPermanent(err) {
		t.Errorf("%v is tried again", err)
	}
	mentions(t, err, "v1.99", version, "v1.35.4")
}

// Machines go on with the version that runs until the control plane has the new one.
func TestMachinesFollowTheControlPlane(t *testing.T) {
	w := newWorld(t, func(spec map[string]any) { spec["version"] = "v1.35" })
	w.run(v1alpha1.OperationCreate, created...)
	w.cluster.Status.Version, w.cluster.Spec.Version = "v1.35.4", "v1.36"
	w.run(v1alpha1.OperationUpgrade, created...)
	joining, err := w.client.CoreV1().Secrets(w.namespace).Get(t.Context(), bootstrap.JoinSecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if join, err := bootstrap.ParseJoin(joining.Data[bootstrap.JoinSecretKey]); err != nil || join.KubernetesVersion != "v1.35.4" {
		t.Errorf("machines join with %s, %v", join.KubernetesVersion, err)
	}
	if image := w.container(containerAPIServer).Image; !strings.HasSuffix(image, version) {
		t.Errorf("the API server runs %s", image)
	}
}

func TestAnImageThatIsMissingIsNamed(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created[:4]...)
	delete(w.offered.Images[version], containerScheduler)
	err := w.try(t.Context(), v1alpha1.OperationCreate, "control-plane")
	mentions(t, err, containerScheduler, version)
}

func TestDatastoreIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created[:3]...)
	w.store.failing = datastore.ErrNotReady
	if err := w.try(t.Context(), v1alpha1.OperationCreate, "datastore"); err == nil || task.IsPermanent(err) || err.Error() != datastore.ErrNotReady.Error() {
		t.Errorf("%v is no wait", err)
	}
	w.store.failing = errors.New("no space")
	mentions(t, w.try(t.Context(), v1alpha1.OperationCreate, "datastore"), "no space")
}

func TestIdentityIsTheProjects(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	project := strings.TrimPrefix(w.cluster.Namespace, v1alpha1.NamespacePrefix)
	client, ok := w.identities.clients[project+".dev"]
	if !ok || client.Organization != "acme" || client.Project != project {
		t.Errorf("%+v", w.identities.clients)
	}
}

// The address that a cluster was given stays, whatever address new clusters get, for as long as a node has it.
func TestADeletedServiceGetsItsPortsBack(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	services := w.client.CoreV1().Services(w.namespace)
	before, err := services.Get(t.Context(), controlPlaneName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := services.Delete(t.Context(), controlPlaneName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run(v1alpha1.OperationRepair, created...)
	after, err := services.Get(t.Context(), controlPlaneName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{base.PortAPI, base.PortKonnectivity} {
		if had, has := base.NodePort(before, name), base.NodePort(after, name); had != has || has == 0 {
			t.Errorf("port %s was %d, is %d", name, had, has)
		}
	}
}

func TestAddressStays(t *testing.T) {
	w := newWorld(t)
	w.run(v1alpha1.OperationCreate, created...)
	endpoint := w.outputs[provisioner.OutputEndpoint]
	move := func(address string, nodes ...string) {
		site := base.Site{Address: netip.MustParseAddr(address)}
		for _, node := range nodes {
			site.NodeAddresses = append(site.NodeAddresses, netip.MustParseAddr(node))
		}
		w.provisioner.Site = func(context.Context) (base.Site, error) { return site, nil }
	}
	move("192.0.2.2", "192.0.2.2", "192.0.2.1")
	w.run(v1alpha1.OperationUpdate, created...)
	if got := w.outputs[provisioner.OutputEndpoint]; got != endpoint {
		t.Errorf("the endpoint moved from %s to %s", endpoint, got)
	}
	move("192.0.2.3", "192.0.2.3")
	w.run(v1alpha1.OperationUpdate, created...)
	if got := w.outputs[provisioner.OutputEndpoint]; !strings.HasPrefix(got, "https://192.0.2.3:") {
		t.Errorf("the endpoint is at an address that nobody has: %s", got)
	}
}
