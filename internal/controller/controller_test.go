// Package controller holds a package for each kind of ours. What they do together is tested here: the controllers of
// tenancy and infrastructure run as in cloudd, against a real API server, while people change their objects.
package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/controller/organization"
	"plasmacloud.io/plasmacloud/internal/controller/project"
	"plasmacloud.io/plasmacloud/internal/controller/used"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/testapi"
	"plasmacloud.io/plasmacloud/internal/usage"
)

var (
	api  *testapi.Server
	kube client.WithWatch
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	// Namespaces shall go as they do in a real cluster.
	api, err = testapi.Start(testapi.Options{Controllers: []string{"namespace-controller"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	defer func() {
		cancel()
		if err := errors.Join(<-stopped, api.Stop()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	manager, err := newManager()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stopped <- nil
		return 1
	}
	go func() { stopped <- manager.Start(ctx) }()
	return m.Run()
}

func newManager() (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(api.Config(), ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	offered, err := catalogue.New([]string{"v1.36.3"}, nil)
	if err != nil {
		return nil, err
	}
	kube, err = client.NewWithWatch(api.Config(), client.Options{Scheme: scheme})
	c := manager.GetClient()
	return manager, errors.Join(err,
		(&organization.Reconciler{Client: c, Objects: func(o *v1alpha1.Organization, projects, users []string) []client.Object {
			return objects(rbac.ForOrganization(o, projects, users))
		}}).SetupWithManager(manager),
		(&project.Reconciler{Client: c, Objects: func(p *v1alpha1.Project) []client.Object {
			return objects(rbac.Management.ForProject(p))
		}}).SetupWithManager(manager),
		(&used.Projects{Client: c, Sizes: func() (usage.Sizer, error) { return offered, nil }}).SetupWithManager(manager),
		(&used.Organizations{Client: c}).SetupWithManager(manager),
		(&account.Reconciler{Client: c, SSH: yard{}, Daemon: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "daemon"}}).SetupWithManager(manager),
		(&network.Reconciler{Client: c}).SetupWithManager(manager),
	)
}

func objects(templates []rbac.Object) []client.Object {
	var objects []client.Object
	for _, template := range templates {
		objects = append(objects, template)
	}
	return objects
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func create[T client.Object](t *testing.T, object T) T {
	t.Helper()
	if err := kube.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
	return object
}

func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := kube.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// change writes what edit does to the object as it is now.
func change[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	get(t, object)
	before, _ := object.DeepCopyObject().(client.Object)
	edit(object)
	if err := kube.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatalf("change %T %s: %v", object, object.GetName(), err)
	}
}

func get(t *testing.T, object client.Object) {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("get %T: %v", object, err)
	}
}

const patience = time.Minute

// eventually reads the object until it is as wanted.
func eventually(t *testing.T, object client.Object, what string, want func() bool) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); err == nil && want() {
			return
		}
	}
	t.Fatalf("%T %s: %s: not within %v: %v\n%+v", object, object.GetName(), what, patience, err, object)
}

// vanishes waits until the object is gone.
func vanishes(t *testing.T, object client.Object) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
			return
		}
	}
	t.Fatalf("%T %s is still there: %+v", object, object.GetName(), object)
}

// says tells whether the condition Ready has the reason, and names everything in its message.
func says(conditions []metav1.Condition, reason string, parts ...string) bool {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != reason {
		return false
	}
	for _, part := range parts {
		if !strings.Contains(ready.Message, part) {
			return false
		}
	}
	return true
}

// someOrganization and someProject are made for one test.
func someOrganization(t *testing.T, name string) *v1alpha1.Organization {
	t.Helper()
	made := create(t, &v1alpha1.Organization{ObjectMeta: named("", name)})
	eventually(t, made, "Ready", func() bool { return says(made.Status.Conditions, v1alpha1.ReasonReady) })
	return made
}

func someProject(t *testing.T, owner, name string) *v1alpha1.Project {
	t.Helper()
	made := create(t, &v1alpha1.Project{ObjectMeta: named("", name), Spec: v1alpha1.ProjectSpec{Organization: owner}})
	eventually(t, made, "Running", func() bool { return made.Status.Phase == v1alpha1.PhaseRunning })
	return made
}

func someUser(t *testing.T, owner, name string) *v1alpha1.User {
	t.Helper()
	return create(t, &v1alpha1.User{ObjectMeta: named("", name), Spec: v1alpha1.UserSpec{Organization: owner, Email: name + "@example.com"}})
}

func someCluster(t *testing.T, namespace, name string, nodes int32) *v1alpha1.Cluster {
	t.Helper()
	return create(t, &v1alpha1.Cluster{ObjectMeta: named(namespace, name), Spec: v1alpha1.ClusterSpec{
		Type: v1alpha1.ClusterFake, Version: "v1.36", NodeGroups: map[string]v1alpha1.NodeGroupTemplate{
			"workers": {MinReplicas: nodes, MaxReplicas: 100, InstanceType: "u1.large"},
		},
	}})
}
