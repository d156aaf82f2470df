package cloudd

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	machinessh "plasmacloud.io/plasmacloud/internal/machine/ssh"
)

// inventory finds hosts that are reached by SSH: a machine's cluster is in a network, that is an account's, and the
// account names the hosts and the Secret with the key to them.
type inventory struct {
	client.Reader
	// api reads Secrets past the cache, which has none of projects.
	api kubernetes.Interface
}

var _ machinessh.Inventory = inventory{}

// AccountOf implements machinessh.Inventory.
func (i inventory) AccountOf(ctx context.Context, key machine.Key) (types.NamespacedName, error) {
	own, err := i.api.CoreV1().Namespaces().Get(ctx, key.Namespace, metav1.GetOptions{})
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("find the project of cluster %s: %w", key.Cluster, err)
	}
	namespace := v1alpha1.NamespacePrefix + own.Labels[v1alpha1.LabelProject]
	cluster := &v1alpha1.Cluster{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Cluster}, cluster); err != nil {
		return types.NamespacedName{}, fmt.Errorf("read cluster %s: %w", key.Cluster, err)
	}
	if v1alpha1.InfrastructureNamespace(cluster) != key.Namespace {
		return types.NamespacedName{}, fmt.Errorf("cluster %s is another one than that of %s", key.Cluster, key.Namespace)
	}
	network := &v1alpha1.Network{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster.Spec.Network}, network); err != nil {
		return types.NamespacedName{}, fmt.Errorf("read network %s: %w", cluster.Spec.Network, err)
	}
	return types.NamespacedName{Namespace: namespace, Name: network.Spec.Account}, nil
}

// Hosts implements machinessh.Inventory.
func (i inventory) Hosts(ctx context.Context, name types.NamespacedName) ([]machinessh.Host, error) {
	account := &v1alpha1.Account{}
	if err := i.Get(ctx, name, account); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var secret *corev1.Secret
	if account.Spec.Credentials != nil {
		var err error
		if secret, err = i.api.CoreV1().Secrets(name.Namespace).Get(ctx, account.Spec.Credentials.Name, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("read the credentials of account %s: %w", name.Name, err)
		}
	}
	return machinessh.HostsOf(account, secret)
}
