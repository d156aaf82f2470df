package base

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/task"
)

const (
	// PortAPI is the API's port of the endpoint's Service.
	PortAPI      = "api"
	firstAPIPort = 6443 // until the Service knows its own
	// PortKonnectivity is the tunnel's, where there is one.
	PortKonnectivity = "konnectivity"

	// annotationAddress keeps the address that a cluster was given: its machines and its users' kubeconfigs hold it.
	annotationAddress = "plasmacloud.io/endpoint-address"
)

// Endpoint is where a control plane is reached.
type Endpoint struct {
	Address netip.Addr     // from everywhere
	Host    string         // its name, where it has one
	Service netip.Addr     // within the management cluster
	ports   map[string]int // at the address, by name; that of the API is the same everywhere
}

// Port is the number of the API's port.
func (e Endpoint) Port() int { return e.ports[PortAPI] }

// PortOf is the number of a port at the address.
func (e Endpoint) PortOf(name string) int { return e.ports[name] }

// URL is what people use.
func (e Endpoint) URL() string {
	if e.Host != "" {
		return e.At(e.Host)
	}
	return e.Machines()
}

// Machines is what machines use.
func (e Endpoint) Machines() string { return e.At(e.Address.String()) }

// Internal is what the platform's own programs use.
func (e Endpoint) Internal() string { return e.At(e.Service.String()) }

// At is the API at a host.
func (e Endpoint) At(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(e.Port()))
}

// Exposure says how a control plane is made reachable.
type Exposure struct {
	// Component whose pods the Service leads to.
	Component string
	// Others are the ports besides the API's, by name, with the ports that the pods listen on.
	Others map[string]int32
	// Unready makes the Service lead to pods that are not ready, too.
	Unready bool
}

// FindSite looks at the management cluster, and refuses limits that it cannot keep.
func (b *Build) FindSite(ctx context.Context) (Site, error) {
	site, err := b.Site(ctx)
	if err != nil {
		return Site{}, fmt.Errorf("find the address of endpoints: %w", err)
	}
	if b.Limited() && len(site.NodeAddresses) > 1 {
		return Site{}, task.Permanent(errors.New("spec.access: who reaches the API can be limited only where the management cluster has one node: on others, clients are not seen as who they are; leave cidrs and public as they are by default"))
	}
	return site, nil
}

// EnsureService makes the Service and sees to it that its port within the management cluster, the one that the API's pods
// listen on, and the one on the nodes are the same: an API server tells its clients one port only.
func (b *Build) EnsureService(ctx context.Context, site Site, exposure Exposure) (Endpoint, error) {
	services := b.Client.CoreV1().Services(b.Home)
	service, err := services.Get(ctx, ServiceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh := &corev1.Service{ObjectMeta: b.Meta(ServiceName)}
		if fresh.Spec.Ports, err = b.portsBefore(ctx); err != nil {
			return Endpoint{}, err
		}
		b.DescribeService(fresh, site, exposure)
		service, err = services.Create(ctx, fresh, metav1.CreateOptions{FieldManager: b.Manager})
	}
	if err != nil {
		return Endpoint{}, b.explainPort(fmt.Errorf("make the endpoint's service: %w", err))
	}
	wanted := service.DeepCopy()
	b.DescribeService(wanted, site, exposure)
	if !equality.Semantic.DeepEqual(wanted.Spec, service.Spec) || !equality.Semantic.DeepEqual(wanted.Annotations, service.Annotations) {
		if service, err = services.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: b.Manager}); err != nil {
			return Endpoint{}, fmt.Errorf("set the endpoint's ports: %w", err)
		}
	}
	return b.endpointOf(service)
}

// explainPort tells who has asked for a port that the Service cannot have.
func (b *Build) explainPort(err error) error {
	if port := b.Cluster.Spec.Access.Port; port != nil && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "nodePort") {
		return fmt.Errorf("spec.access.port: %d is in use by another cluster or service: free it, or make the cluster anew with another one or none: %w", *port, err)
	}
	return err
}

// portsBefore are those of a Service that somebody has deleted: machines and kubeconfigs know them. A new cluster has at
// most the one that it asks for.
func (b *Build) portsBefore(ctx context.Context) ([]corev1.ServicePort, error) {
	join, err := b.ReadJoin(ctx)
	if err != nil {
		return nil, err
	}
	var ports []corev1.ServicePort
	if wanted := b.Cluster.Spec.Access.Port; wanted != nil {
		ports = append(ports, corev1.ServicePort{Name: PortAPI, NodePort: *wanted})
	}
	if join == nil {
		return ports, nil
	}
	for name, address := range map[string]string{PortAPI: strings.TrimPrefix(join.Server, "https://"), PortKonnectivity: join.Konnectivity} {
		if _, text, err := net.SplitHostPort(address); err == nil {
			if port, err := strconv.ParseInt(text, 10, 32); err == nil {
				ports = append(ports, corev1.ServicePort{Name: name, NodePort: int32(port)})
			}
		}
	}
	return ports, nil
}

// DescribeService says what the Service should be, given the ports that it was given.
func (b *Build) DescribeService(service *corev1.Service, site Site, exposure Exposure) {
	service.Spec.PublishNotReadyAddresses = exposure.Unready
	kept, err := netip.ParseAddr(service.Annotations[annotationAddress])
	if err != nil || kept != site.Address && !slices.Contains(site.NodeAddresses, kept) {
		metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotationAddress, site.Address.String())
	}
	api := NodePort(service, PortAPI)
	port := api
	if port == 0 {
		port = firstAPIPort
	}
	ports := []corev1.ServicePort{{Name: PortAPI, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port), NodePort: api}}
	for _, name := range slices.Sorted(maps.Keys(exposure.Others)) {
		target := exposure.Others[name]
		ports = append(ports, corev1.ServicePort{
			Name: name, Protocol: corev1.ProtocolTCP, Port: target, TargetPort: intstr.FromInt32(target), NodePort: NodePort(service, name),
		})
	}
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Spec.ExternalTrafficPolicy = b.trafficPolicy()
	service.Spec.Selector = map[string]string{v1alpha1.LabelComponent: exposure.Component}
	service.Spec.Ports = ports
}

// trafficPolicy: whoever limits the clients has to see where they come from, which only the node itself that they reach
// does; other nodes see a node.
func (b *Build) trafficPolicy() corev1.ServiceExternalTrafficPolicy {
	if b.Limited() {
		return corev1.ServiceExternalTrafficPolicyLocal
	}
	return corev1.ServiceExternalTrafficPolicyCluster
}

// NodePort is the number of a Service's port on the nodes; 0 where it has none yet.
func NodePort(service *corev1.Service, name string) int32 {
	for _, port := range service.Spec.Ports {
		if port.Name == name {
			return port.NodePort
		}
	}
	return 0
}

// Endpoint reads where the control plane is reached.
func (b *Build) Endpoint(ctx context.Context) (Endpoint, error) {
	service, err := b.Client.CoreV1().Services(b.Home).Get(ctx, ServiceName, metav1.GetOptions{})
	if err != nil {
		return Endpoint{}, fmt.Errorf("read the endpoint's service: %w", err)
	}
	return b.endpointOf(service)
}

func (b *Build) endpointOf(service *corev1.Service) (Endpoint, error) {
	address, err := netip.ParseAddr(service.Annotations[annotationAddress])
	if err != nil {
		return Endpoint{}, fmt.Errorf("read the endpoint's address: %w", err)
	}
	internal, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read the endpoint's service: %w", err)
	}
	e := Endpoint{Address: address, Host: b.Cluster.Spec.Host, Service: internal, ports: map[string]int{}}
	for _, port := range service.Spec.Ports {
		e.ports[port.Name] = int(port.NodePort)
	}
	return e, nil
}

// ReadJoin returns what machines need to join; nil where nobody has said it yet.
func (b *Build) ReadJoin(ctx context.Context) (*bootstrap.Join, error) {
	kept, err := b.Secret(ctx, bootstrap.JoinSecretName)
	if err != nil || len(kept.Data[bootstrap.JoinSecretKey]) == 0 {
		return nil, err
	}
	join, err := bootstrap.ParseJoin(kept.Data[bootstrap.JoinSecretKey])
	if err != nil {
		return nil, err
	}
	return &join, nil
}

// PublishJoin writes what machines need to join: the endpoint, the version and the cluster's network are filled in.
func (b *Build) PublishJoin(ctx context.Context, e Endpoint, version string, join bootstrap.Join) error {
	network := b.Cluster.Spec.ClusterNetwork
	join.Server, join.KubernetesVersion = e.Machines(), version
	join.ClusterDomain, join.PodCIDR, join.CNI = network.Domain, network.PodCIDR, network.CNI
	join, err := bootstrap.NewJoin(join)
	if err != nil {
		return err
	}
	content, err := join.Marshal()
	if err != nil {
		return err
	}
	_, err = b.Keep(ctx, bootstrap.JoinSecretName, func(data map[string][]byte) error {
		data[bootstrap.JoinSecretKey] = content
		return nil
	})
	return err
}
