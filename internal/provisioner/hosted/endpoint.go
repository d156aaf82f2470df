package hosted

import (
	"context"
	"errors"
	"fmt"
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
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Ports of the Service.
const (
	portAPI          = "api"
	portKonnectivity = "konnectivity"
	firstAPIPort     = 6443 // until the Service knows its own

	// annotationAddress keeps the address that a cluster was given: its machines and its users' kubeconfigs hold it.
	annotationAddress = "plasmacloud.io/endpoint-address"
)

// endpoint is where a control plane is reached.
type endpoint struct {
	address      netip.Addr // from everywhere
	host         string     // its name, where it has one
	service      netip.Addr // within the management cluster
	port         int        // of the API: the same everywhere
	konnectivity int        // of the tunnel, at the address
}

// url is what people use, machines' what machines use, and internal what the platform's own programs use.
func (e endpoint) url() string {
	if e.host != "" {
		return e.at(e.host)
	}
	return e.machines()
}

func (e endpoint) machines() string { return e.at(e.address.String()) }

func (e endpoint) internal() string { return e.at(e.service.String()) }

func (e endpoint) at(host string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(e.port))
}

// ensureEndpoint gives the cluster its address and port, and tells machines how to join. They boot while the control
// plane starts.
func (b *build) ensureEndpoint(ctx context.Context) error {
	offered, err := b.Catalogue()
	if err != nil {
		return err
	}
	version, err := b.version(offered)
	if err != nil {
		return err
	}
	site, err := b.Site(ctx)
	if err != nil {
		return fmt.Errorf("find the address of endpoints: %w", err)
	}
	if b.limited() && len(site.NodeAddresses) > 1 {
		return task.Permanent(errors.New("spec.access: who reaches the API can be limited only where the management cluster has one node: on others, clients are not seen as who they are; leave cidrs and public as they are by default"))
	}
	starts, err := b.starts(ctx)
	if err != nil {
		return err
	}
	service, err := b.ensureService(ctx, site, starts)
	if err != nil {
		return err
	}
	e, err := b.endpointOf(service)
	if err != nil {
		return err
	}
	if err := b.apply(ctx, b.machinePolicy(site, e)); err != nil {
		return err
	}
	b.scope.SetOutput(provisioner.OutputEndpoint, e.url())
	if b.cluster.Status.Version != "" {
		return nil // machines follow the control plane once it runs the new version
	}
	if err := b.publishJoin(ctx, e, offered, version); err != nil {
		return err
	}
	b.scope.SetOutput(provisioner.OutputVersion, version)
	return nil
}

// ensureService makes the Service and sees to it that its port within the management cluster, the one that the API
// server listens on, and the one on the nodes are the same: the API server tells its clients one port only.
func (b *build) ensureService(ctx context.Context, site Site, starts bool) (*corev1.Service, error) {
	services := b.Client.CoreV1().Services(b.namespace)
	service, err := services.Get(ctx, controlPlaneName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh := &corev1.Service{ObjectMeta: b.meta(controlPlaneName)}
		if fresh.Spec.Ports, err = b.portsBefore(ctx); err != nil {
			return nil, err
		}
		b.describeService(fresh, site, starts)
		service, err = services.Create(ctx, fresh, metav1.CreateOptions{FieldManager: manager})
	}
	if err != nil {
		return nil, fmt.Errorf("make the endpoint's service: %w", err)
	}
	wanted := service.DeepCopy()
	b.describeService(wanted, site, starts)
	if equality.Semantic.DeepEqual(wanted.Spec, service.Spec) && equality.Semantic.DeepEqual(wanted.Annotations, service.Annotations) {
		return service, nil
	}
	service, err = services.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: manager})
	if err != nil {
		return nil, fmt.Errorf("set the endpoint's ports: %w", err)
	}
	return service, nil
}

// starts tells whether no replica of the control plane is ready yet.
func (b *build) starts(ctx context.Context) (bool, error) {
	deployment, err := b.Client.AppsV1().Deployments(b.namespace).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the control plane: %w", err)
	}
	return deployment.Status.ReadyReplicas == 0, nil
}

// portsBefore are those of a Service that somebody has deleted: machines and kubeconfigs know them. There are none where
// the cluster is new.
func (b *build) portsBefore(ctx context.Context) ([]corev1.ServicePort, error) {
	kept, err := b.secret(ctx, bootstrap.JoinSecretName)
	if err != nil || len(kept.Data[bootstrap.JoinSecretKey]) == 0 {
		return nil, err
	}
	join, err := bootstrap.ParseJoin(kept.Data[bootstrap.JoinSecretKey])
	if err != nil {
		return nil, err
	}
	var ports []corev1.ServicePort
	for name, address := range map[string]string{portAPI: strings.TrimPrefix(join.Server, "https://"), portKonnectivity: join.Konnectivity} {
		if _, text, err := net.SplitHostPort(address); err == nil {
			if port, err := strconv.ParseInt(text, 10, 32); err == nil {
				ports = append(ports, corev1.ServicePort{Name: name, NodePort: int32(port)})
			}
		}
	}
	return ports, nil
}

// describeService says what the Service should be, given the ports that it was given. It leads to a replica that is not
// ready while the control plane starts and has no other: so nobody has to wait until the word of its being ready has
// gone around.
func (b *build) describeService(service *corev1.Service, site Site, starts bool) {
	service.Spec.PublishNotReadyAddresses = starts
	kept, err := netip.ParseAddr(service.Annotations[annotationAddress])
	if err != nil || kept != site.Address && !slices.Contains(site.NodeAddresses, kept) {
		metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotationAddress, site.Address.String())
	}
	api, konnectivity := nodePort(service, portAPI), nodePort(service, portKonnectivity)
	port := api
	if port == 0 {
		port = firstAPIPort
	}
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Spec.ExternalTrafficPolicy = b.trafficPolicy()
	service.Spec.Selector = map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentControlPlane}
	service.Spec.Ports = []corev1.ServicePort{
		{Name: portAPI, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port), NodePort: api},
		{
			Name: portKonnectivity, Protocol: corev1.ProtocolTCP, Port: bootstrap.KonnectivityAgentPort,
			TargetPort: intstr.FromInt32(bootstrap.KonnectivityAgentPort), NodePort: konnectivity,
		},
	}
}

// trafficPolicy: whoever limits the clients has to see where they come from, which only the node itself that they reach
// does; other nodes see a node.
func (b *build) trafficPolicy() corev1.ServiceExternalTrafficPolicy {
	if b.limited() {
		return corev1.ServiceExternalTrafficPolicyLocal
	}
	return corev1.ServiceExternalTrafficPolicyCluster
}

// limited tells whether not everybody may reach the API.
func (b *build) limited() bool {
	access := b.cluster.Spec.Access
	return len(access.CIDRs) > 0 || access.Public != nil && !*access.Public
}

func nodePort(service *corev1.Service, name string) int32 {
	for _, port := range service.Spec.Ports {
		if port.Name == name {
			return port.NodePort
		}
	}
	return 0
}

// endpoint reads where the control plane is reached.
func (b *build) endpoint(ctx context.Context) (endpoint, error) {
	service, err := b.Client.CoreV1().Services(b.namespace).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return endpoint{}, fmt.Errorf("read the endpoint's service: %w", err)
	}
	return b.endpointOf(service)
}

func (b *build) endpointOf(service *corev1.Service) (endpoint, error) {
	address, err := netip.ParseAddr(service.Annotations[annotationAddress])
	if err != nil {
		return endpoint{}, fmt.Errorf("read the endpoint's address: %w", err)
	}
	internal, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return endpoint{}, fmt.Errorf("read the endpoint's service: %w", err)
	}
	return endpoint{
		address: address, host: b.cluster.Spec.Host, service: internal,
		port: int(nodePort(service, portAPI)), konnectivity: int(nodePort(service, portKonnectivity)),
	}, nil
}

// leaves are the certificates of the control plane at an endpoint.
func (b *build) leaves(e endpoint) ([]pki.Leaf, error) {
	network := b.cluster.Spec.ClusterNetwork
	services, err := netip.ParsePrefix(network.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("spec.clusterNetwork.serviceCIDR: %w", err)
	}
	return bootstrap.HostedPlane{
		Name: controlPlaneName, Namespace: b.namespace, ServiceAddress: e.service,
		Address: e.address, Host: e.host, ClusterDomain: network.Domain, ServiceCIDR: services,
	}.Leaves()
}

// publishJoin writes what machines need to join.
func (b *build) publishJoin(ctx context.Context, e endpoint, offered *catalogue.Catalogue, version string) error {
	kept, err := b.secret(ctx, pkiSecretName)
	if err != nil {
		return err
	}
	bundle, err := pki.UnmarshalBundle(kept.Data[bundleKey])
	if err != nil {
		return err
	}
	image, err := offered.Image(version, release.ImageNode)
	if err != nil {
		return err
	}
	network := b.cluster.Spec.ClusterNetwork
	join, err := bootstrap.NewJoin(bootstrap.Join{
		Server: e.machines(), CA: bundle.ClusterCA(), KubernetesVersion: version, NodeImage: image,
		Konnectivity:  net.JoinHostPort(e.address.String(), strconv.Itoa(e.konnectivity)),
		ClusterDomain: network.Domain, PodCIDR: network.PodCIDR, CNI: network.CNI,
	})
	if err != nil {
		return err
	}
	content, err := join.Marshal()
	if err != nil {
		return err
	}
	_, err = b.keep(ctx, bootstrap.JoinSecretName, func(data map[string][]byte) error {
		data[bootstrap.JoinSecretKey] = content
		return nil
	})
	return err
}
