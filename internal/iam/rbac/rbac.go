// Package rbac says what the groups that the identity service tells Kubernetes of may do, as objects to be applied: per
// project its namespace with roles, bindings and quotas, per organization what its people may read of it, and once per
// cluster what administrators may do and what tenants may not. It renders and touches nothing.
//
// The same templates serve in two places: the management cluster, where projects hold our kinds, and tenant clusters
// that several projects share, where they hold workloads.
package rbac

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/review"
)

// Object is any object of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Place is the kind of cluster that objects are for.
type Place int

// The places.
const (
	// Management is the cluster that runs the platform. Its project namespaces hold our kinds, and no workload of a
	// tenant runs there.
	Management Place = iota
	// Tenant is a cluster that the projects of an organization share.
	Tenant
)

const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	manager        = "plasmacloud"

	tenantProject = "project"

	labelPodSecurityEnforce = "pod-security.kubernetes.io/enforce"
	labelPodSecurityWarn    = "pod-security.kubernetes.io/warn"
)

// Names of the roles of a project; each has a binding <name>-binding.
const (
	RoleOrgAdmin      = "org-admin"
	RoleProjectAdmin  = "project-admin"
	RoleProjectViewer = "project-viewer"
)

func everything() []string { return []string{rbacv1.VerbAll} }
func reading() []string    { return []string{"get", "list", "watch"} }

// ForProject is a project's namespace, which comes first, and what is in it.
func (p Place) ForProject(project *v1alpha1.Project) []Object {
	t := template{project: project, namespace: v1alpha1.NamespacePrefix + project.Name}
	objects := []Object{t.home()}
	organization := project.Spec.Organization
	objects = append(objects, t.role(RoleOrgAdmin, review.OrganizationAdminGroup(organization),
		rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: everything()})...)
	objects = append(objects, t.role(RoleProjectAdmin, review.ProjectGroup(project.Name),
		rbacv1.PolicyRule{
			APIGroups: []string{"", "apps", "batch", "networking.k8s.io", "storage.k8s.io", v1alpha1.GroupVersion.Group},
			Resources: []string{"*"}, Verbs: everything(),
		})...)
	// A viewer reads no Secrets: those of a project hold kubeconfigs and cloud credentials, and whoever reads them can
	// do more than look.
	objects = append(objects, t.role(RoleProjectViewer, review.ProjectViewerGroup(project.Name),
		rbacv1.PolicyRule{
			APIGroups: []string{"", "apps", "batch", "networking.k8s.io"},
			Resources: []string{"pods", "services", "deployments", "replicasets", "configmaps"}, Verbs: reading(),
		},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: reading()},
		rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: reading()},
	)...)
	if p == Management {
		return append(objects, t.access()...)
	}
	return append(objects, t.quotas()...)
}

// template renders the objects of one project.
type template struct {
	project   *v1alpha1.Project
	namespace string
}

func (t template) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelOrganization: t.project.Spec.Organization,
		v1alpha1.LabelProject:      t.project.Name,
		labelManagedBy:             manager,
	}
}

func (t template) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: t.namespace, Labels: t.labels()}
}

// home is the namespace.
func (t template) home() *corev1.Namespace {
	labels := t.labels()
	labels[v1alpha1.LabelTenantType] = tenantProject
	labels[labelPodSecurityEnforce] = "baseline"
	labels[labelPodSecurityWarn] = "restricted"
	annotations := map[string]string{v1alpha1.AnnotationProjectName: cmp.Or(t.project.Spec.DisplayName, t.project.Name)}
	if by := t.project.Annotations[v1alpha1.AnnotationCreatedBy]; by != "" {
		annotations[v1alpha1.AnnotationCreatedBy] = by
	}
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: t.namespace, Labels: labels, Annotations: annotations},
	}
}

// role is a Role of the namespace, bound to a group.
func (t template) role(name, group string, rules ...rbacv1.PolicyRule) []Object {
	return []Object{
		&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: t.meta(name), Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: rbacType("RoleBinding"), ObjectMeta: t.meta(name + "-binding"), Subjects: groups(group),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}

// access lets a project's people read the Project itself, and no other: it is not in its namespace. It goes when the
// project does.
func (t template) access() []Object {
	objects := clusterRole("plasmacloud:project:"+t.project.Name,
		groups(
			review.ProjectGroup(t.project.Name), review.ProjectViewerGroup(t.project.Name),
			review.OrganizationAdminGroup(t.project.Spec.Organization),
		),
		rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"projects"},
			ResourceNames: []string{t.project.Name}, Verbs: reading(),
		})
	for _, object := range objects {
		object.SetLabels(t.labels())
		own(object, "Project", t.project)
	}
	return objects
}

// own makes the object go when its owner does.
func own(object metav1.Object, kind string, owner metav1.Object) {
	if owner.GetUID() == "" {
		return
	}
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
	}})
}

// quotas are what a project may use of a shared cluster unless somebody decides otherwise.
func (t template) quotas() []Object {
	quota := func(name string, hard map[corev1.ResourceName]string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: t.meta(name),
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}},
		}
		for name, quantity := range hard {
			q.Spec.Hard[name] = resource.MustParse(quantity)
		}
		return q
	}
	return []Object{
		quota("project-compute-quota", map[corev1.ResourceName]string{
			corev1.ResourceRequestsCPU: "10", corev1.ResourceRequestsMemory: "20Gi",
			corev1.ResourceLimitsCPU: "20", corev1.ResourceLimitsMemory: "40Gi",
		}),
		quota("project-storage-quota", map[corev1.ResourceName]string{
			corev1.ResourcePersistentVolumeClaims: "10", corev1.ResourceRequestsStorage: "100Gi",
		}),
		quota("project-object-quota", map[corev1.ResourceName]string{
			corev1.ResourcePods: "50", corev1.ResourceServices: "20", corev1.ResourceServicesLoadBalancers: "5",
			corev1.ResourceConfigMaps: "50", corev1.ResourceSecrets: "50",
		}),
	}
}

// ForOrganization is what an organization's people may do with kinds that are in no namespace: everybody reads the
// organization, and administrators keep its projects and users, which are given by name. Lists of everything are
// nobody's: they would tell of other organizations.
func ForOrganization(organization *v1alpha1.Organization, projects, users []string) []Object {
	group := v1alpha1.GroupVersion.Group
	name := "plasmacloud:org:" + organization.Name
	objects := clusterRole(name, groups(review.OrganizationGroup(organization.Name)),
		rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"organizations"}, ResourceNames: []string{organization.Name}, Verbs: reading()})
	keeping := []string{"get", "list", "watch", "update", "patch", "delete"}
	var rules []rbacv1.PolicyRule
	keep := func(resource string, names []string) {
		if len(names) > 0 { // no names would mean all
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: keeping})
		}
	}
	keep("projects", projects)
	keep("users", users)
	objects = append(objects, clusterRole(name+":admin", groups(review.OrganizationAdminGroup(organization.Name)), rules...)...)
	for _, object := range objects {
		object.GetLabels()[v1alpha1.LabelOrganization] = organization.Name
		own(object, "Organization", organization)
	}
	return objects
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func groups(names ...string) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for _, name := range names {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name})
	}
	return subjects
}

// clusterRole is a ClusterRole with its binding.
func clusterRole(name string, subjects []rbacv1.Subject, rules ...rbacv1.PolicyRule) []Object {
	return []Object{
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: clusterMeta(name), Rules: rules},
		clusterBinding(name+"-binding", name, subjects),
	}
}

func clusterBinding(name, role string, subjects []rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: clusterMeta(name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func clusterMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{labelManagedBy: manager}}
}
