package rbac

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// person is somebody with access to the real API server.
type person struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func as(t *testing.T, name string, groups ...string) person {
	t.Helper()
	config := api.Config()
	if name != "" {
		config = api.ConfigFor(t, name, groups...)
	}
	var p person
	var err error
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if p.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return p
}

func applyAll(t *testing.T, objects []Object) {
	t.Helper()
	admin := as(t, "")
	for _, object := range objects {
		content, err := apply.Typed(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := apply.Objects(t.Context(), admin.dynamic, "test", content); err != nil {
			t.Fatal(err)
		}
	}
}

// furnish makes two organizations with two projects each, and everything about them.
func furnish(t *testing.T, place Place) {
	t.Helper()
	applyAll(t, place.ForCluster())
	for _, name := range []string{"acme", "umbrella"} {
		organization := &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: name}}
		applyAll(t, ForOrganization(organization, []string{name + "-web", name + "-shop"}, []string{name + "-user"}))
		for _, project := range []string{name + "-web", name + "-shop"} {
			applyAll(t, place.ForProject(&v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: v1alpha1.ProjectSpec{Organization: name}}))
		}
	}
}

// may asks the API server whether somebody may do something: "verb resource.group/subresource namespace name".
func (p person) may(t *testing.T, verb, resource, namespace, name string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	review, err := p.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestWhoMayDoWhat(t *testing.T) {
	furnish(t, Management)
	const web, shop, other = "project-acme-web", "project-acme-shop", "project-umbrella-web"
	people := map[string]person{
		"member":   as(t, "ann@acme", "org:acme", "project:acme-web", "system:authenticated"),
		"viewer":   as(t, "vic@acme", "org:acme", "project:acme-web:viewer", "system:authenticated"),
		"orgadmin": as(t, "boss@acme", "org:acme", "project:acme-web", "project:acme-shop", "k8s:org-admin", "org:acme:admin"),
		"platform": as(t, "root@acme", "org:acme", "system:plasmacloud-admins"),
		"robot":    as(t, "sa-ci@acme-web", "org:acme", "project:acme-web", "system:serviceaccounts"),
	}
	const (
		clusters = "clusters.plasmacloud.io"
		projects = "projects.plasmacloud.io"
		users    = "users.plasmacloud.io"
	)
	for _, c := range []struct{ who, verb, resource, namespace, name, want string }{
		// of one's own project
		{"member viewer orgadmin platform robot", "list", clusters, web, "", "yes"},
		{"member orgadmin platform robot", "create", clusters, web, "", "yes"},
		{"viewer", "create", clusters, web, "", "no"},
		{"viewer", "delete", "tasks.plasmacloud.io", web, "x", "no"},
		{"member orgadmin platform robot", "get", "secrets", web, "kubernetes-x-admin-kubeconfig", "yes"},
		{"viewer", "get", "secrets", web, "kubernetes-x-admin-kubeconfig", "no"},
		{"viewer", "list", "secrets", web, "", "no"},
		{"viewer", "get", "pods/log", web, "x", "yes"},
		{"viewer", "create", "pods/exec", web, "x", "no"},
		{"viewer", "create", "serviceaccounts/token", web, "default", "no"},
		{"orgadmin platform", "create", "rolebindings.rbac.authorization.k8s.io", web, "", "yes"},
		{"member viewer robot", "create", "rolebindings.rbac.authorization.k8s.io", web, "", "no"},
		// of another project of the organization
		{"orgadmin platform", "create", clusters, shop, "", "yes"},
		{"member viewer robot", "list", clusters, shop, "", "no"},
		{"member viewer robot", "get", "secrets", shop, "x", "no"},
		// of another organization, and of everybody
		{"member viewer orgadmin robot", "list", clusters, other, "", "no"},
		{"member viewer orgadmin robot", "get", "secrets", other, "x", "no"},
		{"member viewer orgadmin robot", "list", clusters, "", "", "no"},
		{"member viewer orgadmin robot", "list", "secrets", "", "", "no"},
		{"member viewer orgadmin robot", "list", "namespaces", "", "", "no"},
		{"member viewer orgadmin robot", "list", projects, "", "", "no"},
		{"member viewer orgadmin robot", "list", users, "", "", "no"},
		{"member viewer orgadmin robot", "get", "secrets", "kube-system", "x", "no"},
		{"member viewer orgadmin robot", "create", "accesstokens.plasmacloud.io", "", "", "no"},
		{"member viewer orgadmin robot", "update", "users.plasmacloud.io/status", "", "acme-user", "no"},
		{"platform", "list", clusters, "", "", "yes"},
		{"platform", "list", "secrets", "", "", "yes"},
		{"platform", "delete", "nodes", "", "x", "yes"},
		// of kinds that are in no namespace
		{"member viewer orgadmin platform robot", "get", "organizations.plasmacloud.io", "", "acme", "yes"},
		{"member viewer orgadmin robot", "get", "organizations.plasmacloud.io", "", "umbrella", "no"},
		{"member viewer orgadmin platform robot", "get", projects, "", "acme-web", "yes"},
		{"member viewer robot", "get", projects, "", "acme-shop", "no"},
		{"member viewer orgadmin robot", "get", projects, "", "umbrella-web", "no"},
		{"orgadmin platform", "create", projects, "", "", "yes"},
		{"orgadmin platform", "delete", users, "", "acme-user", "yes"},
		{"orgadmin", "delete", users, "", "umbrella-user", "no"},
		{"member viewer robot", "create", users, "", "", "no"},
		{"member viewer robot", "update", projects, "", "acme-web", "no"},
		{"orgadmin", "update", "organizations.plasmacloud.io", "", "acme", "no"},
	} {
		for _, who := range strings.Fields(c.who) {
			if got := people[who].may(t, c.verb, c.resource, c.namespace, c.name); got != (c.want == "yes") {
				t.Errorf("%s may %s %s %s/%s: %v", who, c.verb, c.resource, c.namespace, c.name, got)
			}
		}
	}
}

// eventuallyDenied repeats until a policy, which the API server takes a moment to learn, refuses.
func eventuallyDenied(t *testing.T, says string, try func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := try(t.Context())
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("refused for another reason: %v", err)
			}
			return
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not refused: %s", says)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestWhatBoundsAProjectIsNotItsAdministratorsToChange(t *testing.T) {
	furnish(t, Management)
	boss := as(t, "boss@acme", "org:acme", "project:acme-web", "k8s:org-admin", "org:acme:admin")
	const web = "project-acme-web"
	const kept = "kept by the platform"
	privileged := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)
	eventuallyDenied(t, kept, func(ctx context.Context) error {
		_, err := boss.kube.CoreV1().Namespaces().Patch(ctx, web, types.MergePatchType, privileged, metav1.PatchOptions{})
		return err
	})
	eventuallyDenied(t, kept, func(ctx context.Context) error {
		return boss.kube.CoreV1().Namespaces().Delete(ctx, web, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	eventuallyDenied(t, kept, func(ctx context.Context) error {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
		_, err := boss.kube.CoreV1().ResourceQuotas(web).Create(ctx, quota, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	eventuallyDenied(t, "cloud k8s create", func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "miner-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		_, err := boss.kube.CoreV1().Pods(web).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	// What the platform itself, and those who run it, do is not touched.
	for name, groups := range map[string][]string{"": nil, "root@acme": {"org:acme", "system:plasmacloud-admins"}} {
		somebody := as(t, name, groups...)
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"by":"x%d"}}}`, len(groups))
		if _, err := somebody.kube.CoreV1().Namespaces().Patch(t.Context(), web, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := boss.kube.CoreV1().Secrets(web).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "credentials"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAdministratorsStayInTheirOrganization(t *testing.T) {
	furnish(t, Management)
	boss := as(t, "boss@acme", "org:acme", "k8s:org-admin", "org:acme:admin")
	users := boss.dynamic.Resource(v1alpha1.GroupVersion.WithResource("users"))
	projects := boss.dynamic.Resource(v1alpha1.GroupVersion.WithResource("projects"))
	user := func(name string, spec map[string]any) *unstructured.Unstructured {
		spec["email"] = name + "@example.com"
		return object("User", name, spec)
	}
	try := func(client dynamic.ResourceInterface, object *unstructured.Unstructured) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	eventuallyDenied(t, "not yours", try(users, user("spy", map[string]any{"organization": "umbrella"})))
	eventuallyDenied(t, "not yours", try(projects, object("Project", "grab", map[string]any{"organization": "umbrella"})))
	eventuallyDenied(t, "platform administrator", try(users, user("me", map[string]any{"organization": "acme", "platformAdmin": true})))
	eventuallyDenied(t, "passwordSecret", try(users, user("me", map[string]any{"organization": "acme", "passwordSecret": map[string]any{"name": "x"}})))

	own := user("acme-user", map[string]any{"organization": "acme", "organizationAdmin": true})
	if _, err := users.Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for patch, says := range map[string]string{
		`{"spec":{"platformAdmin":true}}`:              "platform administrator",
		`{"spec":{"passwordSecret":{"name":"other"}}}`: "passwordSecret",
	} {
		eventuallyDenied(t, says, func(ctx context.Context) error {
			_, err := users.Patch(ctx, "acme-user", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	if _, err := users.Patch(t.Context(), "acme-user", types.MergePatchType, []byte(`{"spec":{"disabled":true}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	// A platform administrator among the organization's users is out of its administrators' reach.
	admin := as(t, "")
	_, err := admin.dynamic.Resource(v1alpha1.GroupVersion.WithResource("users")).
		Patch(t.Context(), "acme-user", types.MergePatchType, []byte(`{"spec":{"platformAdmin":true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventuallyDenied(t, "platform administrator", func(ctx context.Context) error {
		_, err := users.Patch(ctx, "acme-user", types.MergePatchType, []byte(`{"spec":{"disabled":false}}`), metav1.PatchOptions{})
		return err
	})
	eventuallyDenied(t, "platform administrator", func(ctx context.Context) error {
		return users.Delete(ctx, "acme-user", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	if _, err := projects.Create(t.Context(), object("Project", "acme-new", map[string]any{"organization": "acme"}), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Kind: kind})
	u.SetName(name)
	return u
}

func TestTenantClustersTakeTheTemplatesToo(t *testing.T) {
	tenant := testapi.New(t, testapi.Options{WithoutCRDs: true})
	shared := api
	api = tenant
	defer func() { api = shared }()
	furnish(t, Tenant)
	ann := as(t, "ann@acme", "org:acme", "project:acme-web")
	if !ann.may(t, "create", "deployments.apps", "project-acme-web", "") || ann.may(t, "create", "deployments.apps", "project-acme-shop", "") {
		t.Error("a project's member has no workloads there, or elsewhere")
	}
	quotas, err := as(t, "").kube.CoreV1().ResourceQuotas("project-acme-web").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(quotas.Items) != 3 {
		t.Errorf("%d quotas, %v", len(quotas.Items), err)
	}
	if err := ann.kube.CoreV1().ConfigMaps("project-acme-web").Delete(t.Context(), "none", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
