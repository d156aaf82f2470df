package base

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// OperatorRole is the ClusterRole that the daemon has in the namespaces of clusters, and nowhere else.
const OperatorRole = "plasmacloud-cluster-operator"

// Prepare makes the cluster's namespace, the daemon's permissions in it, and the walls around it that do not depend on the
// cluster's ports.
func (b *Build) Prepare(ctx context.Context, policies func(site Site) []runtime.Object) error {
	if err := b.namespaceIsFree(ctx); err != nil {
		return err
	}
	labels := b.Labels()
	labels[labelPodSecurityEnforce] = "privileged" // machines are; what else runs here is restricted by its own description
	namespace := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: b.Home, Labels: labels},
	}
	if err := b.Apply(ctx, namespace); err != nil {
		return err
	}
	if err := b.Apply(ctx, b.permissions()...); err != nil {
		return err
	}
	site, err := b.Site(ctx)
	if err != nil {
		return fmt.Errorf("look at the management cluster: %w", err)
	}
	if err := b.Apply(ctx, policies(site)...); err != nil {
		return err
	}
	return Permitted(ctx, func(ctx context.Context) error {
		_, err := b.Secret(ctx, KubeconfigSecret)
		return err
	})
}

// namespaceIsFree waits for a namespace that is being removed: nothing can be made in it.
func (b *Build) namespaceIsFree(ctx context.Context) error {
	namespace, err := b.Client.CoreV1().Namespaces().Get(ctx, b.Home, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", b.Home, err)
	}
	if namespace.DeletionTimestamp != nil {
		return task.Wait(time.Second, "namespace %s is being removed", b.Home)
	}
	return nil
}

// permissions are the daemon's: everything in the cluster's namespace, and one Secret beside the cluster.
func (b *Build) permissions() []runtime.Object {
	daemon := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.Platform, Name: b.Account}}
	typeOf := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	name := v1alpha1.AdminKubeconfigSecret(b.Cluster.Name)
	secrets := []string{"secrets"}
	return []runtime.Object{
		&rbacv1.RoleBinding{
			TypeMeta: typeOf("RoleBinding"), ObjectMeta: b.Meta(OperatorRole), Subjects: daemon,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: OperatorRole},
		},
		&rbacv1.Role{TypeMeta: typeOf("Role"), ObjectMeta: b.Owned(name), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: secrets, Verbs: []string{"create"}}, // which has no names
			{APIGroups: []string{""}, Resources: secrets, ResourceNames: []string{name}, Verbs: []string{"get", "update", "patch", "delete"}},
		}},
		&rbacv1.RoleBinding{
			TypeMeta: typeOf("RoleBinding"), ObjectMeta: b.Owned(name), Subjects: daemon,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}
