package hosted

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
)

// ensureEndpoint gives the cluster its address and port, and tells machines how to join. They boot while the control
// plane starts.
func (b *build) ensureEndpoint(ctx context.Context) error {
	offered, version, err := b.Offered()
	if err != nil {
		return err
	}
	site, err := b.FindSite(ctx)
	if err != nil {
		return err
	}
	starts, err := b.starts(ctx)
	if err != nil {
		return err
	}
	e, err := b.EnsureService(ctx, site, exposure(starts))
	if err != nil {
		return err
	}
	if err := b.Apply(ctx, b.MachinePolicy(site, e)); err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputEndpoint, e.URL())
	if b.Cluster.Status.Version != "" {
		return nil // machines follow the control plane once it runs the new version
	}
	if err := b.publishJoin(ctx, e, offered, version); err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputVersion, version)
	return nil
}

// exposure is how the control plane is reached. The Service leads to a replica that is not ready while the control plane
// starts and has no other: so nobody has to wait until the word of its being ready has gone around.
func exposure(starts bool) base.Exposure {
	return base.Exposure{
		Component: v1alpha1.ComponentControlPlane, Unready: starts,
		Others: map[string]int32{base.PortKonnectivity: bootstrap.KonnectivityAgentPort},
	}
}

// starts tells whether no replica of the control plane is ready yet.
func (b *build) starts(ctx context.Context) (bool, error) {
	deployment, err := b.Client.AppsV1().Deployments(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the control plane: %w", err)
	}
	return deployment.Status.ReadyReplicas == 0, nil
}

// leaves are the certificates of the control plane at an endpoint.
func (b *build) leaves(e base.Endpoint) ([]pki.Leaf, error) {
	network := b.Cluster.Spec.ClusterNetwork
	services, err := netip.ParsePrefix(network.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("spec.clusterNetwork.serviceCIDR: %w", err)
	}
	return bootstrap.HostedPlane{
		Name: controlPlaneName, Namespace: b.Home, ServiceAddress: e.Service,
		Address: e.Address, Host: e.Host, ClusterDomain: network.Domain, ServiceCIDR: services,
	}.Leaves()
}

// publishJoin writes what machines need to join.
func (b *build) publishJoin(ctx context.Context, e base.Endpoint, offered *catalogue.Catalogue, version string) error {
	kept, err := b.Secret(ctx, pkiSecretName)
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
	return b.PublishJoin(ctx, e, version, bootstrap.Join{
		CA: bundle.ClusterCA(), NodeImage: image,
		Konnectivity: net.JoinHostPort(e.Address.String(), strconv.Itoa(e.PortOf(base.PortKonnectivity))),
	})
}
