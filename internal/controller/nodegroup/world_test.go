package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/nodegroup"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
	"plasmacloud.io/plasmacloud/internal/tenant"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

// Two real API servers: the management cluster's, and that of the tenant clusters of all tests.
var management, tenants *testapi.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var problems [2]error
	var starting sync.WaitGroup
	starting.Go(func() { management, problems[0] = testapi.Start(testapi.Options{}) })
	starting.Go(func() { tenants, problems[1] = testapi.Start(testapi.Options{WithoutCRDs: true}) })
	starting.Wait()
	defer func() {
		for _, server := range []*testapi.Server{management, tenants} {
			if server != nil {
				problems[0] = errors.Join(problems[0], server.Stop())
			}
		}
		if err := errors.Join(problems[:]...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	if errors.Join(problems[:]...) != nil {
		return 1
	}
	return m.Run()
}

const patience = 60 * time.Second

// world is a project with a cluster, the controllers of its machines, and its nodes.
type world struct {
	t         *testing.T
	kube      client.WithWatch // past all caches
	api       kubernetes.Interface
	tenant    kubernetes.Interface
	driver    *fake.Driver
	wrap      func(machine.Driver) machine.Driver // nil for the driver as it is
	setup     machinecontroller.Setup             // nil where machines boot as nodes
	namespace string
	cluster   *v1alpha1.Cluster
	limits    nodegroup.Limits
	drain     time.Duration
	stop      func()

	mu     sync.Mutex
	absent bool // machines do not join
}

type option func(*world)

// newWorld makes a cluster that says how machines join it and whose API answers, and starts the controllers.
func newWorld(t *testing.T, config fake.Config, options ...option) *world {
	t.Helper()
	w := &world{
		t: t, namespace: management.Namespace(t), driver: fake.New(clock.RealClock{}, config), drain: time.Minute,
		limits: nodegroup.Limits{NotReady: 2 * time.Second, Creation: patience, Retry: time.Second, Share: 40},
	}
	for _, change := range options {
		change(w)
	}
	var err error
	if w.kube, err = client.NewWithWatch(management.Config(), client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	w.api, w.tenant = clients(t, management), clients(t, tenants)
	w.create(&v1alpha1.Account{ObjectMeta: w.named("local")})
	w.create(&v1alpha1.Network{ObjectMeta: w.named("default")})
	w.cluster = &v1alpha1.Cluster{ObjectMeta: w.named("dev"), Spec: v1alpha1.ClusterSpec{Version: "v1.36"}}
	if w.setup != nil {
		w.cluster.Spec.Type, w.cluster.Spec.ControlPlane.Replicas = v1alpha1.ClusterKubeadm, 1
	}
	w.create(w.cluster)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.InfrastructureNamespace(w.cluster)}})
	w.start()
	ctx, cancel := context.WithCancel(context.Background())
	var kubelets sync.WaitGroup
	kubelets.Go(func() { w.runKubelets(ctx) })
	t.Cleanup(func() {
		w.stop()
		cancel()
		kubelets.Wait()
	})
	return w
}

// up is a world whose cluster runs.
func up(t *testing.T, config fake.Config, options ...option) *world {
	t.Helper()
	w := newWorld(t, config, options...)
	w.offerJoin()
	w.offerAPI()
	return w
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func clients(t *testing.T, server *testapi.Server) kubernetes.Interface {
	t.Helper()
	api, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// start runs the controllers. stop ends them.
func (w *world) start() {
	w.t.Helper()
	manager, err := ctrl.NewManager(management.Config(), ctrl.Options{
		Scheme: scheme(w.t), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	connections := tenant.New(tenant.Config{
		API: w.api, Addresses: machinecontroller.Addresses(manager.GetClient()), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
	})
	driver := machine.Driver(w.driver)
	if w.wrap != nil {
		driver = w.wrap(driver)
	}
	offered := func() (*catalogue.Catalogue, error) { return catalogue.New([]string{"v1.36.3", "v1.35.4"}, nil) }
	err = errors.Join(
		(&machinecontroller.Reconciler{
			Client: manager.GetClient(), API: w.api, Tenants: connections, Recorder: manager.GetEventRecorder("test"), Clock: clock.RealClock{},
			Drivers: map[v1alpha1.Provider]machine.Driver{v1alpha1.ProviderLocal: driver}, Setup: w.setup, Catalogue: offered, DrainTimeout: w.drain, Concurrency: 4,
		}).SetupWithManager(manager),
		(&nodegroup.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Recorder: manager.GetEventRecorder("test"), Clock: clock.RealClock{},
			Catalogue: offered, Limits: w.limits,
		}).SetupWithManager(manager),
	)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := manager.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		connections.Close()
	})
}

// runKubelets lets machines that run join.
func (w *world) runKubelets(ctx context.Context) {
	for ctx.Err() == nil {
		machines, _ := w.driver.List(ctx, machine.Filter{})
		for _, m := range machines {
			w.mu.Lock()
			absent := w.absent
			w.mu.Unlock()
			if m.State == machine.StateRunning && !absent {
				w.joinNode(ctx, m)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// joinNode registers a node, if it has its token and was not there before.
func (w *world) joinNode(ctx context.Context, m machine.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	published := slices.ContainsFunc(w.tokens(ctx), func(secret corev1.Secret) bool { return string(secret.Data["description"]) == "machine "+m.Key.Name })
	if !published {
		return
	}
	node, err := w.tenant.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Key.Name}}, metav1.CreateOptions{})
	if err != nil {
		return
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.Address}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, _ = w.tenant.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
}

// tokens are the bootstrap tokens in the tenant cluster.
func (w *world) tokens(ctx context.Context) []corev1.Secret {
	secrets, err := w.tenant.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
	if err != nil {
		return nil
	}
	return secrets.Items
}

func (w *world) setAbsent(absent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent = absent
}

// setNode makes nodes ready, or not.
func (w *world) setNode(value corev1.ConditionStatus, names ...string) {
	w.t.Helper()
	for _, name := range names {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := w.tenant.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: value, Message: "the test says so"}}
			_, err = w.tenant.CoreV1().Nodes().UpdateStatus(w.t.Context(), node, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// offerJoin is what the cluster's provisioner does first: it says how machines join.
func (w *world) offerJoin() {
	w.t.Helper()
	ca, err := os.ReadFile(tenants.PKI().CAPath(pki.ClusterCA))
	if err != nil {
		w.t.Fatal(err)
	}
	join, err := bootstrap.NewJoin(bootstrap.Join{
		Server: tenants.URL(), CA: ca, KubernetesVersion: "v1.36.3", NodeImage: "plasmacloud.io/node:v1.36.3", ClusterDomain: "cluster.local",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	content, err := join.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.secret(bootstrap.JoinSecretName, bootstrap.JoinSecretKey, content)
	w.setCluster(func(c *v1alpha1.Cluster) { c.Status.Endpoint, c.Status.Version = tenants.URL(), "v1.36.3" })
}

// offerAPI is what comes later: the API answers.
func (w *world) offerAPI() {
	w.t.Helper()
	w.offerAPIAt(tenants.URL())
}

func (w *world) offerAPIAt(url string) {
	w.t.Helper()
	kubeconfig, err := tenants.PKI().EmbeddedKubeconfig(pki.Admin, url)
	if err != nil {
		w.t.Fatal(err)
	}
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	w.secret(tenant.KubeconfigSecret, v1alpha1.KubeconfigSuperAdminService, content)
}

func (w *world) secret(name, key string, content []byte) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.InfrastructureNamespace(w.cluster), Name: name}, Data: map[string][]byte{key: content},
	})
}

func (w *world) setCluster(change func(*v1alpha1.Cluster)) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.kube.Get(w.t.Context(), client.ObjectKeyFromObject(w.cluster), w.cluster); err != nil {
			return err
		}
		change(w.cluster)
		return w.kube.Status().Update(w.t.Context(), w.cluster)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.kube.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T: %v", object, err)
	}
}

// group makes a group of the cluster's.
func (w *world) group(replicas int32, change ...func(*v1alpha1.NodeGroupTemplate)) *v1alpha1.NodeGroup {
	w.t.Helper()
	g := &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.cluster.Name + "-workers", Labels: map[string]string{
			v1alpha1.LabelCluster: w.cluster.Name, v1alpha1.LabelNodeGroup: "workers",
		}},
		Spec: v1alpha1.NodeGroupSpec{Cluster: w.cluster.Name, Group: "workers", Replicas: replicas, Template: v1alpha1.NodeGroupTemplate{MaxReplicas: 20}},
	}
	for _, apply := range change {
		apply(&g.Spec.Template)
	}
	w.create(g)
	return g
}

// edit changes a group.
func (w *world) edit(g *v1alpha1.NodeGroup, change func(*v1alpha1.NodeGroupSpec)) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.kube.Get(w.t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		change(&g.Spec)
		return w.kube.Update(w.t.Context(), g)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// machines of the world, by name.
func (w *world) machines() map[string]v1alpha1.Machine {
	w.t.Helper()
	var list v1alpha1.MachineList
	if err := w.kube.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	byName := map[string]v1alpha1.Machine{}
	for _, m := range list.Items {
		byName[m.Name] = m
	}
	return byName
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.machines())) }

// eventually waits until want is satisfied.
func (w *world) eventually(what string, want func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		if want() {
			return
		}
		if time.Now().After(deadline) {
			for _, m := range w.machines() {
				w.t.Logf("%s %s deleted %v: %+v", m.Name, m.Status.Phase, m.DeletionTimestamp, m.Status.Conditions)
			}
			w.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// settled waits until a group is ready as it is described now.
func (w *world) settled(g *v1alpha1.NodeGroup) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("group %s is ready", g.Name), func() bool {
		if err := w.kube.Get(w.t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
			return false
		}
		ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == g.Generation
	})
}

// reason of a group that is not ready.
func (w *world) condition(object client.Object, conditions func() []metav1.Condition) metav1.Condition {
	w.t.Helper()
	if err := w.kube.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
	if found := meta.FindStatusCondition(conditions(), v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// gone waits until an object is gone.
func (w *world) gone(object client.Object) {
	w.t.Helper()
	w.eventually(object.GetName()+" is gone", func() bool {
		return apierrors.IsNotFound(w.kube.Get(w.t.Context(), client.ObjectKeyFromObject(object), object))
	})
}
