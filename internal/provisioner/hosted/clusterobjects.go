package hosted

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// applyClusterObjects puts into the cluster's API what nodes and pods rely on, and hands its administrator the keys.
func (b *build) applyClusterObjects(ctx context.Context) error {
	e, err := b.Endpoint(ctx)
	if err != nil {
		return err
	}
	connection, err := b.Connect(ctx, e)
	if err != nil {
		return err
	}
	typed, untyped, err := connection.Clients()
	if err != nil {
		return err
	}
	contents, err := b.describeContents(ctx, e)
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return contents.letNodesJoin(ctx, typed, untyped) },
		func(ctx context.Context) error { return contents.apply(ctx, untyped, "api.yaml") },
		func(ctx context.Context) error { return contents.apply(ctx, untyped, "konnectivity.yaml") },
		func(ctx context.Context) error { return apply.Objects(ctx, untyped, manager, contents.access...) },
		b.HandOver,
	} {
		parts.Go(func() error { return base.Settle(ctx, part) })
	}
	return parts.Wait()
}

// contents is what the platform puts into a cluster.
type contents struct {
	Base cluster.Objects
	// Address and Port are the API's own, as nodes reach it, and KonnectivityPort the tunnel's.
	Address                string
	Port, KonnectivityPort int
	AgentImage             string
	AdminGroup             string
	RoleGroups             map[string]string // by ClusterRole
	KonnectivityUser       string
	Audience               string

	server string
	ca     []byte
	access []*unstructured.Unstructured
}

func (b *build) describeContents(ctx context.Context, e base.Endpoint) (*contents, error) {
	offered, version, err := b.Offered()
	if err != nil {
		return nil, err
	}
	coredns, err := offered.Image(version, release.ImageCoreDNS)
	if err != nil {
		return nil, err
	}
	agent, err := offered.Image(version, release.ImageKonnectivityAgent)
	if err != nil {
		return nil, err
	}
	material, err := b.ReadJoin(ctx)
	if err != nil {
		return nil, err
	}
	if material == nil {
		return nil, errors.New("the cluster does not say how machines join: repair the cluster")
	}
	access, err := b.AccessObjects(ctx)
	if err != nil {
		return nil, err
	}
	network := b.Cluster.Spec.ClusterNetwork
	services, err := netip.ParsePrefix(network.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("spec.clusterNetwork.serviceCIDR: %w", err)
	}
	return &contents{
		Base: cluster.Objects{
			Settings: cluster.Settings{
				ClusterCIDR: network.PodCIDR, ServiceCIDR: network.ServiceCIDR,
				ClusterDNS: nth(services, 10).String(), ClusterDomain: network.Domain,
			},
			CoreDNSImage: coredns,
		},
		Address: e.Address.String(), Port: e.Port(), KonnectivityPort: e.PortOf(base.PortKonnectivity), AgentImage: agent,
		AdminGroup: bootstrap.AdminGroup, KonnectivityUser: bootstrap.KonnectivityUser, Audience: bootstrap.KonnectivityAudience,
		RoleGroups: base.RoleGroups(),
		server:     e.Machines(), ca: material.CA, access: access,
	}, nil
}

// nth is the address that many after the first of a range.
func nth(prefix netip.Prefix, n int) netip.Addr {
	address := prefix.Masked().Addr()
	for range n {
		address = address.Next()
	}
	return address
}

func (c *contents) letNodesJoin(ctx context.Context, typed kubernetes.Interface, untyped dynamic.Interface) error {
	if err := c.Base.Apply(ctx, untyped, func(string) bool { return false }); err != nil {
		return err
	}
	// Last: nodes take it as the sign that they can join.
	return join.PublishClusterInfo(ctx, typed, c.server, c.ca)
}

func (c *contents) apply(ctx context.Context, client dynamic.Interface, name string) error {
	objects, err := apply.Render(manifests, "manifests/"+name, c)
	if err != nil {
		return err
	}
	return apply.Objects(ctx, client, manager, objects...)
}
