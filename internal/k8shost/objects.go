package k8shost

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/release"
)

// clusterObjects puts into the API what nodes and pods rely on, and what other nodes need to join. The cluster works
// once the first half is there; the second half, which is slow on purpose (passwords are hashed), may follow.
func (s *server) clusterObjects() component.Component {
	return component.NewRoutine("cluster-objects", s.log, s.applyObjects, func(ctx context.Context) error {
		if err := s.publishJoinMaterial(ctx); err != nil {
			return err
		}
		debug.FreeOSMemory() // hashing the password took tens of megabytes that are not needed again
		<-ctx.Done()
		return nil
	})
}

func (s *server) applyObjects(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.plane.Kubeconfig(pki.Supervisor))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	image, err := s.release.Image(release.ImageCoreDNS, s.version)
	if err != nil {
		return err
	}
	objects := cluster.Objects{Settings: s.settings(), CoreDNSImage: image.Refs[0]}
	// An API server that has just come up may still refuse one request or other.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return component.Poll(ctx, func(ctx context.Context) error { return objects.Apply(ctx, client, s.config.Disabled) })
}

// publishJoinMaterial lets others join: where the cluster's authority can be read, the token, and, sealed with it,
// the authorities' keys for further servers.
func (s *server) publishJoinMaterial(ctx context.Context) error {
	client, err := s.ownAPI()
	if err != nil {
		return err
	}
	if err := join.PublishToken(ctx, client, s.token); err != nil {
		return err
	}
	if s.embeddedEtcd() {
		if err := s.withEtcd(s.storeBundle)(ctx); err != nil {
			return err
		}
	}
	bundle, err := pki.ReadBundle(s.pki.Dir())
	if err != nil {
		return err
	}
	if err := join.PublishServerBundle(ctx, client, bundle, s.token.Password()); err != nil {
		return err
	}
	// Last: nodes take it as the sign that they can join.
	url := fmt.Sprintf("https://%s:%d", s.config.AdvertiseAddress, s.config.HTTPSListenPort)
	return join.PublishClusterInfo(ctx, client, url, bundle.ClusterCA())
}

// approver approves nodes' certificates.
func (s *server) approver() component.Component {
	return component.NewRoutine("approver", s.log, nil, func(ctx context.Context) error {
		client, err := s.ownAPI()
		if err != nil {
			return err
		}
		return cluster.NewApprover(client, s.log.With("component", "approver")).Run(ctx)
	})
}

// roleLabels names this node a part of the control plane, which no kubelet may do for itself.
func (s *server) roleLabels() component.Component {
	return component.NewRoutine("role-labels", s.log, nil, func(ctx context.Context) error {
		client, err := s.ownAPI()
		if err != nil {
			return err
		}
		if err := labelWhenRegistered(ctx, client, s.config.NodeName); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

func labelWhenRegistered(ctx context.Context, client kubernetes.Interface, name string) error {
	if err := awaitNode(ctx, client, name, func(*corev1.Node) bool { return true }); err != nil {
		return fmt.Errorf("wait for this node to register: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{
		"node-role.kubernetes.io/control-plane": "true",
	}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "k8shost"})
	return err
}

func (s *server) ownAPI() (kubernetes.Interface, error) {
	return clientOf(s.plane.Kubeconfig(pki.Supervisor))
}
