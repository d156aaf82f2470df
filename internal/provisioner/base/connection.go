package base

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Connection is the way to a cluster's own API, as its super administrator.
type Connection struct{ config *rest.Config }

// Connect reads the credentials. It goes to the Service's address, which works before its name does.
func (b *Build) Connect(ctx context.Context, e Endpoint) (*Connection, error) {
	secret, err := b.Secret(ctx, KubeconfigSecret)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[v1alpha1.KubeconfigSuperAdminService])
	if err != nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	config.Host = e.Internal()
	config.QPS, config.Burst = -1, 0 // what a client holds back helps nobody
	config.UserAgent = b.Manager
	config.WarningHandler = rest.NoWarnings{} // of what is deprecated, the Service kubernetes still has
	return &Connection{config: config}, nil
}

// HTTPClient returns a client whose requests take no longer than that.
func (c *Connection) HTTPClient(timeout time.Duration) (*http.Client, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = timeout
	return rest.HTTPClientFor(config)
}

// Clients are those with requests that do not hang.
func (c *Connection) Clients() (kubernetes.Interface, dynamic.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = 30 * time.Second
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	return typed, untyped, err
}
