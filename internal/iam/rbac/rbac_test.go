package rbac

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func project() *v1alpha1.Project {
	return &v1alpha1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: "proj-456", UID: "u", Annotations: map[string]string{v1alpha1.AnnotationCreatedBy: "user@example.com"}},
		Spec:       v1alpha1.ProjectSpec{Organization: "org-123", DisplayName: "my-web-app"},
	}
}

// named returns the objects by kind and name.
func named(t *testing.T, objects []Object) map[string]Object {
	t.Helper()
	found := map[string]Object{}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" || kind.Version == "" {
			t.Errorf("%T %s has no kind", object, object.GetName())
		}
		key := kind.Kind + "/" + object.GetName()
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = object
	}
	return found
}

// assertYAML compares the fields of an object that the text names.
func assertYAML(t *testing.T, object Object, want string) {
	t.Helper()
	if object == nil {
		t.Fatalf("it is missing: %s", want)
	}
	var have, wanted any
	data, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(data, &have)
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(want), &wanted)
	}
	if err != nil {
		t.Fatal(err)
	}
	if path := differs(have, wanted); path != "" {
		t.Errorf("%s %s differs in %s:\n%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), path, data)
	}
}

// differs is where have lacks something of want, or "". Lists have to be equal.
func differs(have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		values, ok := have.(map[string]any)
		if !ok {
			return "."
		}
		for key, value := range want {
			if path := differs(values[key], value); path != "" {
				return "." + key + path
			}
		}
		return ""
	case []any:
		values, ok := have.([]any)
		if !ok || len(values) != len(want) {
			return "[]"
		}
		for i := range want {
			if path := differs(values[i], want[i]); path != "" {
				return "[]" + path
			}
		}
		return ""
	default:
		if have != want {
			return "!"
		}
		return ""
	}
}

func TestNamespaceHasTheMetadataOfTheSpecification(t *testing.T) {
	objects := Management.ForProject(project())
	if _, ok := objects[0].(*corev1.Namespace); !ok {
		t.Fatal("the namespace is not the first object")
	}
	assertYAML(t, objects[0], `
apiVersion: v1
kind: Namespace
metadata:
  name: project-proj-456
  labels:
    plasmacloud.io/org-id: "org-123"
    plasmacloud.io/project-id: "proj-456"
    plasmacloud.io/tenant-type: "project"
    pod-security.kubernetes.io/enforce: baseline
  annotations:
    plasmacloud.io/project-name: "my-web-app"
    plasmacloud.io/created-by: "user@example.com"`)
	plain := project()
	plain.Annotations, plain.Spec.DisplayName = nil, ""
	if got := Management.ForProject(plain)[0].GetAnnotations(); len(got) != 1 || got[v1alpha1.AnnotationProjectName] != "proj-456" {
		t.Errorf("annotations are %v", got)
	}
}

func TestRolesAreThoseOfTheSpecification(t *testing.T) {
	for _, place := range []Place{Management, Tenant} {
		objects := named(t, place.ForProject(project()))
		assertYAML(t, objects["Role/org-admin"], `
metadata: {namespace: project-proj-456}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`)
		assertYAML(t, objects["Role/project-admin"], `
metadata: {namespace: project-proj-456}
rules:
- {apiGroups: ["", "apps", "batch", "networking.k8s.io", "storage.k8s.io", "plasmacloud.io"], resources: ["*"], verbs: ["*"]}`)
		assertYAML(t, objects["Role/project-viewer"], `
metadata: {namespace: project-proj-456}
rules:
- {apiGroups: ["", "apps", "batch", "networking.k8s.io"], resources: ["pods", "services", "deployments", "replicasets", "configmaps"], verbs: ["get", "list", "watch"]}
- {apiGroups: [""], resources: ["pods/log"], verbs: ["get", "list"]}
- {apiGroups: ["plasmacloud.io"], resources: ["*"], verbs: ["get", "list", "watch"]}
- {apiGroups: ["", "events.k8s.io"], resources: ["events"], verbs: ["get", "list", "watch"]}`)
		for role, group := range map[string]string{
			"org-admin": "org:org-123:admin", "project-admin": "project:proj-456", "project-viewer": "project:proj-456:viewer",
		} {
			assertYAML(t, objects["RoleBinding/"+role+"-binding"], `
metadata: {namespace: project-proj-456}
subjects:
- {kind: Group, name: "`+group+`", apiGroup: rbac.authorization.k8s.io}
roleRef: {kind: Role, name: `+role+`, apiGroup: rbac.authorization.k8s.io}`)
		}
	}
}

func TestQuotasAreThoseOfTheSpecification(t *testing.T) {
	objects := named(t, Tenant.ForProject(project()))
	for name, hard := range map[string]string{
		"project-compute-quota": `{requests.cpu: "10", requests.memory: 20Gi, limits.cpu: "20", limits.memory: 40Gi}`,
		"project-storage-quota": `{persistentvolumeclaims: "10", requests.storage: 100Gi}`,
		"project-object-quota":  `{pods: "50", services: "20", services.loadbalancers: "5", configmaps: "50", secrets: "50"}`,
	} {
		assertYAML(t, objects["ResourceQuota/"+name], "metadata: {namespace: project-proj-456}\nspec: {hard: "+hard+"}")
	}
	for name := range named(t, Management.ForProject(project())) {
		if strings.HasPrefix(name, "ResourceQuota/") {
			t.Errorf("%s is in the management cluster, where it would count the platform's own objects", name)
		}
	}
}

func TestClusterAdminIsThatOfTheSpecification(t *testing.T) {
	for _, place := range []Place{Management, Tenant} {
		objects := named(t, place.ForCluster())
		assertYAML(t, objects["ClusterRole/plasmacloud-cluster-admin"], `
rules:
- {apiGroups: [""], resources: ["nodes", "persistentvolumes"], verbs: ["*"]}
- {apiGroups: ["storage.k8s.io"], resources: ["storageclasses"], verbs: ["*"]}
- {apiGroups: ["plasmacloud.io"], resources: ["*"], verbs: ["*"]}`)
		assertYAML(t, objects["ClusterRoleBinding/plasmacloud-cluster-admin-binding"], `
subjects:
- {kind: Group, name: "system:plasmacloud-admins", apiGroup: rbac.authorization.k8s.io}
roleRef: {kind: ClusterRole, name: plasmacloud-cluster-admin, apiGroup: rbac.authorization.k8s.io}`)
		if _, all := objects["ClusterRoleBinding/plasmacloud-platform-admin-binding"]; all != (place == Management) {
			t.Errorf("place %d: platform administrators may do everything: %v", place, all)
		}
	}
}

func TestNobodyIsGivenAllByAnEmptyListOfNames(t *testing.T) {
	organization := &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "u"}}
	for _, object := range append(ForOrganization(organization, nil, nil), ForOrganization(organization, []string{"p"}, []string{"u"})...) {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if len(rule.ResourceNames) == 0 {
				t.Errorf("%s gives all of %v", role.Name, rule.Resources)
			}
		}
		if len(role.OwnerReferences) != 1 {
			t.Errorf("%s stays when its organization goes", role.Name)
		}
	}
}
