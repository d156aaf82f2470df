package base

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/iam/review"
)

// AccessObjects let people in with the platform's tokens, under the groups that the identity service tells of.
func (b *Build) AccessObjects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	if b.Identities == nil {
		return nil, nil
	}
	project, err := b.readProject(ctx)
	if err != nil {
		return nil, err
	}
	objects := rbac.Tenant.ForCluster()
	if b.Cluster.Spec.Tenancy == v1alpha1.TenancyShared {
		objects = append(objects, rbac.Tenant.ForProject(project)...)
	} else {
		objects = append(permissionsOnly(objects), owners(project)...)
	}
	var all []*unstructured.Unstructured
	for _, object := range objects {
		content, err := apply.Typed(object)
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	return all, nil
}

func (b *Build) readProject(ctx context.Context) (*v1alpha1.Project, error) {
	content, err := b.Dynamic.Resource(v1alpha1.GroupVersion.WithResource("projects")).Get(ctx, b.Project(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read project %s: %w", b.Project(), err)
	}
	project := &v1alpha1.Project{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, project); err != nil {
		return nil, fmt.Errorf("read project %s: %w", b.Project(), err)
	}
	return project, nil
}

// permissionsOnly leaves out what keeps projects within their bounds: a cluster that is one project's own has none.
func permissionsOnly(objects []rbac.Object) []rbac.Object {
	var kept []rbac.Object
	for _, object := range objects {
		switch object.(type) {
		case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
			kept = append(kept, object)
		}
	}
	return kept
}

// owners lets the people of a project into a cluster that is the project's own. Whoever may change things in the project
// may read the administrator's kubeconfig too, and is that in the cluster.
func owners(project *v1alpha1.Project) []rbac.Object {
	binding := func(name, role string, groups ...string) *rbacv1.ClusterRoleBinding {
		object := &rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelManagedBy: "plasmacloud"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		for _, group := range groups {
			object.Subjects = append(object.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		return object
	}
	return []rbac.Object{
		binding("plasmacloud:owners", "cluster-admin", review.OrganizationAdminGroup(project.Spec.Organization), review.ProjectGroup(project.Name)),
		binding("plasmacloud:viewers", "view", review.ProjectViewerGroup(project.Name)),
	}
}

// RoleGroups are the groups of a cluster's users, by the ClusterRole that each is bound to.
func RoleGroups() map[string]string {
	return map[string]string{"cluster-admin": v1alpha1.GroupClusterAdmin, "edit": v1alpha1.GroupClusterEdit, "view": v1alpha1.GroupClusterView}
}
