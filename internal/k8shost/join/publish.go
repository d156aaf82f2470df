package join

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

const clusterInfoRole = "k8shost:cluster-info"

// PublishToken makes the API server accept the cluster's own token, which has to
// be in full form. Like all Publish functions it may be called again at every
// start and writes only what has changed.
func PublishToken(ctx context.Context, client kubernetes.Interface, tok token.Token) error {
	want, err := token.PasswordSecret(tok)
	if err != nil {
		return fmt.Errorf("publish token: %w", err)
	}
	err = apply(ctx, client.CoreV1().Secrets(want.Namespace), want, func(have *corev1.Secret) bool {
		changed := !equality.Semantic.DeepEqual(have.Data, want.Data)
		have.Data = want.Data
		return changed
	})
	if err != nil {
		return fmt.Errorf("publish token: %w", err)
	}
	return nil
}

// PublishClusterInfo shows the cluster's CA and address to anyone who asks, as
// kubeadm does: nodes that join find the CA there. Call it after the token and
// the keys are published: nodes take it as the sign that they can join.
func PublishClusterInfo(ctx context.Context, client kubernetes.Interface, serverURL string, caPEM []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: serverURL, CertificateAuthorityData: caPEM}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("publish cluster-info: %w", err)
	}
	err = applyRole(ctx, client, metav1.NamespacePublic, clusterInfoRole,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{bootstrapapi.ConfigMapClusterInfo}, Verbs: []string{"get"}},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"})
	if err != nil {
		return err
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo},
		Data:       map[string]string{bootstrapapi.KubeConfigKey: string(kubeconfig)},
	}
	err = apply(ctx, client.CoreV1().ConfigMaps(want.Namespace), want, func(have *corev1.ConfigMap) bool {
		if have.Data[bootstrapapi.KubeConfigKey] == string(kubeconfig) {
			return false
		}
		if have.Data == nil {
			have.Data = map[string]string{}
		}
		// Other keys are signatures that the controller manager keeps there.
		have.Data[bootstrapapi.KubeConfigKey] = string(kubeconfig)
		return true
	})
	if err != nil {
		return fmt.Errorf("publish cluster-info: %w", err)
	}
	return nil
}

// applyRole gives subject the rights of rule by a Role and a RoleBinding.
func applyRole(ctx context.Context, client kubernetes.Interface, namespace, name string, rule rbacv1.PolicyRule, subject rbacv1.Subject) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}
	err := apply(ctx, client.RbacV1().Roles(namespace), role, func(have *rbacv1.Role) bool {
		changed := !equality.Semantic.DeepEqual(have.Rules, role.Rules)
		have.Rules = role.Rules
		return changed
	})
	if err != nil {
		return fmt.Errorf("publish role %s: %w", name, err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}
	err = apply(ctx, client.RbacV1().RoleBindings(namespace), binding, func(have *rbacv1.RoleBinding) bool {
		changed := !equality.Semantic.DeepEqual(have.Subjects, binding.Subjects)
		have.Subjects = binding.Subjects
		return changed
	})
	if err != nil {
		return fmt.Errorf("publish role binding %s: %w", name, err)
	}
	return nil
}

// objects are the API objects of one kind and namespace.
type objects[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

// apply creates want, or has merge change the object that is there; merge says
// whether it changed anything. It is safe where several servers do the same.
func apply[T metav1.Object](ctx context.Context, objects objects[T], want T, merge func(have T) bool) error {
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultRetry, raced, func() error {
		have, err := objects.Get(ctx, want.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, want, metav1.CreateOptions{})
			return err
		}
		if err != nil || !merge(have) {
			return err
		}
		_, err = objects.Update(ctx, have, metav1.UpdateOptions{})
		return err
	})
}
