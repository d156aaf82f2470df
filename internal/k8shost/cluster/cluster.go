// Package cluster keeps what a k8shost server puts into its own cluster's API: the permissions of joining nodes, the
// settings they read, the cluster's DNS, and the approval of the certificates that nodes ask for. It is the only part
// of the launcher that writes Kubernetes objects.
package cluster

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Names that joining nodes and servers agree upon.
const (
	Namespace    = "kube-system"
	SettingsName = "k8shost-config"
)

// Settings are the same on every node of a cluster. The first server decides them, the others read them.
type Settings struct {
	ClusterCIDR   string
	ServiceCIDR   string
	ClusterDNS    string
	ClusterDomain string
	// DisableNetworkPolicy leaves NetworkPolicy objects without effect, on all nodes or on none.
	DisableNetworkPolicy bool
}

func (s Settings) data() map[string]string {
	return map[string]string{
		"cluster-cidr":           s.ClusterCIDR,
		"service-cidr":           s.ServiceCIDR,
		"cluster-dns":            s.ClusterDNS,
		"cluster-domain":         s.ClusterDomain,
		"disable-network-policy": strconv.FormatBool(s.DisableNetworkPolicy),
	}
}

// ReadSettings returns the settings of the cluster behind client.
func ReadSettings(ctx context.Context, client kubernetes.Interface) (Settings, error) {
	configMap, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, SettingsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Settings{}, fmt.Errorf("read cluster settings: %w: is the server a k8shost server, and has its start finished?", err)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read cluster settings: %w", err)
	}
	d := configMap.Data
	return Settings{
		ClusterCIDR: d["cluster-cidr"], ServiceCIDR: d["service-cidr"],
		ClusterDNS: d["cluster-dns"], ClusterDomain: d["cluster-domain"],
		DisableNetworkPolicy: d["disable-network-policy"] == "true",
	}, nil
}

// Differences returns which flags of this server contradict the cluster's settings: one message a flag.
func (s Settings) Differences(cluster Settings) []string {
	own, theirs := s.data(), cluster.data()
	var messages []string
	for _, flag := range []string{"cluster-cidr", "service-cidr", "cluster-dns", "cluster-domain", "disable-network-policy"} {
		if own[flag] != theirs[flag] {
			messages = append(messages, fmt.Sprintf("--%s is %s here and %s in the cluster", flag, own[flag], theirs[flag]))
		}
	}
	return messages
}
