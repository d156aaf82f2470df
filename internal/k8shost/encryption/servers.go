package encryption

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Servers returns the API servers that the cluster names, each to be asked itself. The configuration is an
// administrator's.
func Servers(config *rest.Config) func(ctx context.Context) ([]Server, error) {
	return func(ctx context.Context) ([]Server, error) {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		found, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			LabelSelector: labels.Set{discoveryv1.LabelServiceName: "kubernetes"}.String(),
		})
		if err != nil {
			return nil, fmt.Errorf("list API servers: %w", err)
		}
		var servers []Server
		for _, slice := range found.Items {
			for _, port := range slice.Ports {
				for _, endpoint := range slice.Endpoints {
					servers = append(servers, At(config, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))))
				}
			}
		}
		return servers, nil
	}
}

// At is the API server at an address.
func At(config *rest.Config, address string) Server {
	return Server{Name: address, Loaded: func(ctx context.Context) (string, error) {
		own := rest.CopyConfig(config)
		own.Host = "https://" + address
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			return "", err
		}
		metrics, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return "", err
		}
		return loaded(metrics)
	}}
}

// loaded finds the hash of the configuration in an API server's metrics.
func loaded(metrics []byte) (string, error) {
	const metric = "apiserver_encryption_config_controller_last_config_info{"
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), metric); ok {
			_, after, found := strings.Cut(text, `,hash="`)
			if hash, _, ended := strings.Cut(after, `"`); found && ended {
				return hash, nil
			}
		}
	}
	return "", errors.New("it does not say which keys it works with")
}
