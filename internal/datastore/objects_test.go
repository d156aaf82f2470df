package datastore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

func TestInstallIsIdempotent(t *testing.T) {
	w := newWorld(t)
	shared := w.shared()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	versions := func() []string {
		set, err := w.api.AppsV1().StatefulSets(w.config.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tls, err := w.api.CoreV1().Secrets(w.config.Namespace).Get(t.Context(), tlsSecret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		service, err := w.api.CoreV1().Services(w.config.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return []string{set.ResourceVersion, tls.ResourceVersion, service.ResourceVersion}
	}
	before := versions()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := versions(); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Errorf("installing again changed something: %v, %v", before, after)
	}
}

func TestDataAreOnAHostWhereThereIsNoStorageClass(t *testing.T) {
	w := newWorld(t)
	w.config.Replicas = 3
	makeNode(t, w.api, "node-b")
	shared := w.shared()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	volumes, err := shared.server.ownVolumes(t.Context())
	if err != nil || len(volumes) != 3 {
		t.Fatalf("%d volumes, %v", len(volumes), err)
	}
	hosts, paths := map[string]int{}, map[string]bool{}
	for _, volume := range volumes {
		hosts[hostOf(&volume)]++
		paths[volume.Spec.HostPath.Path] = true
		if !strings.HasPrefix(volume.Spec.HostPath.Path, "/var/lib/plasmacloud/datastore/"+w.config.Namespace+"-") {
			t.Errorf("path %s", volume.Spec.HostPath.Path)
		}
		if volume.Spec.ClaimRef.Namespace != w.config.Namespace || !strings.HasPrefix(volume.Spec.ClaimRef.Name, "data-datastore-") {
			t.Errorf("claim %v", volume.Spec.ClaimRef)
		}
	}
	if len(paths) != 3 || len(hosts) != 2 || hosts["node-a"] > 2 || hosts["node-b"] > 2 {
		t.Errorf("members are not spread: %v", hosts)
	}
	if err := shared.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expectNoVolumes()
}

func TestVolumesAreOfTheStorageClassThatThereIs(t *testing.T) {
	w := newWorld(t)
	w.config.Storage.Class = "fast"
	shared := w.shared()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	set, err := shared.server.statefulSet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if class := classOf(set); class != "fast" {
		t.Errorf("class %q", class)
	}
	if security := set.Spec.Template.Spec.SecurityContext; security.RunAsNonRoot == nil || !*security.RunAsNonRoot || *security.FSGroup != 65532 {
		t.Errorf("it runs as root where it need not: %v", security)
	}
	// Once made, it stays, whatever is configured later.
	shared.server.config.Storage.Class = "slow"
	if err := shared.Install(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheDefaultStorageClassIsFound(t *testing.T) {
	server := testapi.New(t, testapi.Options{WithoutCRDs: true})
	w := newWorldOn(t, server)
	w.config.Storage.Directory = ""
	shared := w.shared()
	if err := shared.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "no default StorageClass") {
		t.Errorf("without a place for data: %v", err)
	}
	for _, class := range []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Provisioner: "example.com/x"},
		{ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{defaultClassAnnotation: "true"}}, Provisioner: "example.com/x"},
	} {
		if _, err := w.api.StorageV1().StorageClasses().Create(t.Context(), &class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	set, err := shared.server.statefulSet(t.Context())
	if err != nil || classOf(set) != "standard" {
		t.Errorf("class %q, %v", classOf(set), err)
	}
	if replicas := replicasOf(set); replicas != 1 {
		t.Errorf("%d members on one node", replicas)
	}
	for _, host := range []string{"node-b", "node-c"} {
		makeNode(t, w.api, host)
	}
	if wanted, err := shared.server.wantedReplicas(t.Context()); err != nil || wanted != 3 {
		t.Errorf("%d members on three nodes, %v", wanted, err)
	}
}

func TestALostAuthorityIsNotMadeAnew(t *testing.T) {
	w := newWorld(t)
	shared := w.shared()
	if err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.api.CoreV1().Secrets(w.config.Namespace).Delete(t.Context(), authoritySecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := shared.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "restore it") {
		t.Errorf("Install: %v", err)
	}
}

func TestDedicatedComesAndGoes(t *testing.T) {
	w := newWorld(t)
	w.config.Platform = "plasmacloud-system"
	w.config.Labels = map[string]string{v1alpha1.LabelCluster: "dev", v1alpha1.LabelProject: "p"}
	dedicated, err := NewDedicated(w.config)
	if err != nil {
		t.Fatal(err)
	}
	tenant := Tenant{Name: "dev"}
	if _, err := dedicated.Ensure(t.Context(), tenant); !errors.Is(err, ErrNotReady) {
		t.Fatalf("Ensure before etcd runs: %v", err)
	}
	w.start()
	credentials := w.ensure(dedicated, "dev")
	if _, err := w.tenant(credentials).Put(t.Context(), credentials.Prefix+"/a", "1"); err != nil {
		t.Error(err)
	}
	// The platform's leader finds it.
	other := newWorld(t)
	other.config.Dial = w.dial
	found, err := other.shared().dedicated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var maintained bool
	for i := range found {
		if found[i].config.Namespace == w.config.Namespace {
			maintained = true
			if err := other.shared().lookAfter(t.Context(), found[i]); err != nil {
				t.Error(err)
			}
			_ = found[i].close()
		}
	}
	if !maintained {
		t.Error("nobody looks after it")
	}
	w.stop()
	for range 2 {
		if err := dedicated.Remove(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	w.expectNothing()
}

// TestPermissionsSuffice does everything as the platform's own account, which may do what the installer's manifest says.
func TestPermissionsSuffice(t *testing.T) {
	w := newWorld(t)
	config := w.platformAccount()
	var err error
	if w.config.API, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if w.config.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	shared := w.installed()
	if err := shared.lookAfter(t.Context(), &shared.server); err != nil {
		t.Error(err)
	}
	if _, err := shared.dedicated(t.Context()); err != nil {
		t.Error(err)
	}
	if err := shared.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	w.stop()
	dedicated, err := NewDedicated(w.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := dedicated.Remove(t.Context(), Tenant{Name: "dev"}); err != nil {
		t.Error(err)
	}
	w.expectNothing()
	w.config.Namespace = "never-made"
	if dedicated, err = NewDedicated(w.config); err != nil {
		t.Fatal(err)
	}
	if err := dedicated.Remove(t.Context(), Tenant{Name: "dev"}); err != nil {
		t.Errorf("where there never was a namespace: %v", err)
	}
}

// platformAccount is a user with the rights that the installer gives to the platform in the whole cluster, and in the
// namespaces of clusters.
func (w *world) platformAccount() *rest.Config {
	w.t.Helper()
	objects, err := apply.Render(os.DirFS(filepath.Join("..", "install", "manifests")), "access.yaml", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "cloudd-of-" + w.config.Namespace}
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		if err := apply.Objects(w.t.Context(), w.config.Dynamic, manager, object); err != nil {
			w.t.Fatal(err)
		}
		role, meta := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: object.GetName()}, metav1.ObjectMeta{Name: object.GetName() + w.config.Namespace}
		switch object.GetName() {
		case "plasmacloud-cloudd":
			_, err = w.api.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: []rbacv1.Subject{user}}, metav1.CreateOptions{})
		case "plasmacloud-cluster-operator":
			_, err = w.api.RbacV1().RoleBindings(w.config.Namespace).Create(w.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: []rbacv1.Subject{user}}, metav1.CreateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return api.ConfigFor(w.t, user.Name)
}

// expectNothing tells of everything that is left of an etcd.
func (w *world) expectNothing() {
	w.t.Helper()
	ctx, core, options := w.t.Context(), w.api.CoreV1(), metav1.GetOptions{}
	_, set := w.api.AppsV1().StatefulSets(w.config.Namespace).Get(ctx, name, options)
	_, service := core.Services(w.config.Namespace).Get(ctx, name, options)
	_, peers := core.Services(w.config.Namespace).Get(ctx, members, options)
	_, authority := core.Secrets(w.config.Namespace).Get(ctx, authoritySecret, options)
	_, tls := core.Secrets(w.config.Namespace).Get(ctx, tlsSecret, options)
	_, config := core.ConfigMaps(w.config.Namespace).Get(ctx, name, options)
	_, budget := w.api.PolicyV1().PodDisruptionBudgets(w.config.Namespace).Get(ctx, name, options)
	_, policy := w.api.NetworkingV1().NetworkPolicies(w.config.Namespace).Get(ctx, name, options)
	for what, err := range map[string]error{"set": set, "service": service, "members": peers, "authority": authority, "certificates": tls, "config": config, "budget": budget, "policy": policy} {
		if !apierrors.IsNotFound(err) {
			w.t.Errorf("%s is left: %v", what, err)
		}
	}
	w.expectNoVolumes()
}

// expectNoVolumes counts those that nobody but a controller, which is not here, has to let go of as gone.
func (w *world) expectNoVolumes() {
	w.t.Helper()
	volumes, err := (&server{config: w.config}).ownVolumes(w.t.Context())
	for _, volume := range volumes {
		if volume.DeletionTimestamp == nil {
			w.t.Errorf("volume %s is left", volume.Name)
		}
	}
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) awaitSet() {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := w.api.AppsV1().StatefulSets(w.config.Namespace).Get(w.t.Context(), name, metav1.GetOptions{}); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatal("there is no StatefulSet")
}

func TestNodesThatAMemberCanRunOn(t *testing.T) {
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	taint := func(key string) corev1.NodeSpec {
		return corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}}
	}
	for what, c := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"ready":         {corev1.Node{Status: ready}, true},
		"control plane": {corev1.Node{Status: ready, Spec: taint("node-role.kubernetes.io/control-plane")}, true},
		"not ready":     {corev1.Node{}, false},
		"cordoned":      {corev1.Node{Status: ready, Spec: corev1.NodeSpec{Unschedulable: true}}, false},
		"tainted":       {corev1.Node{Status: ready, Spec: taint("gpu")}, false},
	} {
		if got := usable(&c.node); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
