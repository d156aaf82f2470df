package join

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// ServerList takes the addresses of the API servers: a LoadBalancer does.
type ServerList interface {
	SetServers(addresses []string) error
}

// WatchServers keeps list up to date with the API servers that the cluster
// names, until ctx ends. Each API server enters itself into the endpoints of
// the Service default/kubernetes and keeps its entry alive.
func WatchServers(ctx context.Context, client kubernetes.Interface, list ServerList, logger *slog.Logger) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(metav1.NamespaceDefault),
		informers.WithTweakListOptions(func(opts *metav1.ListOptions) {
			opts.LabelSelector = discoveryv1.LabelServiceName + "=kubernetes"
		}))
	endpoints := factory.Discovery().V1().EndpointSlices()
	informer := endpoints.Informer()
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		logger.WarnContext(ctx, "watch API servers", "error", err)
	})
	if err != nil {
		return fmt.Errorf("watch API servers: %w", err)
	}
	update := func() {
		if err := updateServers(endpoints.Lister(), list); err != nil {
			logger.WarnContext(ctx, "update API servers", "error", err)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { update() },
		UpdateFunc: func(any, any) { update() },
		DeleteFunc: func(any) { update() },
	})
	if err != nil {
		return fmt.Errorf("watch API servers: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

func updateServers(lister discoverylisters.EndpointSliceLister, list ServerList) error {
	found, err := lister.EndpointSlices(metav1.NamespaceDefault).List(labels.Everything())
	if err != nil {
		return err
	}
	addresses := serverAddresses(found)
	if len(addresses) == 0 {
		return nil // the API answers, so this will change: the known servers are a better guess
	}
	return list.SetServers(addresses)
}

// serverAddresses returns host:port of every endpoint that takes requests.
func serverAddresses(found []*discoveryv1.EndpointSlice) []string {
	var addresses []string
	for _, slice := range found {
		for _, port := range slice.Ports {
			if port.Port == nil || (port.Name != nil && *port.Name != "https") {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
					continue
				}
				for _, address := range endpoint.Addresses {
					addresses = append(addresses, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}
