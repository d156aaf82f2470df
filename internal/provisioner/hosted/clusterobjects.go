package hosted

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/cluster"
	"plasmacloud.io/plasmacloud/internal/k8shost/join"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/release"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// settleTime is for how long an API that has just come up may refuse one request or other.
const settleTime = 15 * time.Second

// applyClusterObjects puts into the cluster's API what nodes and pods rely on, and hands its administrator the keys.
func (b *build) applyClusterObjects(ctx context.Context) error {
	e, err := b.endpoint(ctx)
	if err != nil {
		return err
	}
	connection, err := b.connect(ctx, e)
	if err != nil {
		return err
	}
	typed, untyped, err := connection.clients()
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
		b.handOver,
	} {
		parts.Go(func() error { return settle(ctx, part) })
	}
	return parts.Wait()
}

// settle tries again while an API that has just come up finds its feet.
func settle(ctx context.Context, do func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settleTime, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
	if last != nil {
		return last
	}
	return err
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

func (b *build) describeContents(ctx context.Context, e endpoint) (*contents, error) {
	offered, err := b.Catalogue()
	if err != nil {
		return nil, err
	}
	version, err := b.version(offered)
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
	joining, err := b.secret(ctx, bootstrap.JoinSecretName)
	if err != nil {
		return nil, err
	}
	material, err := bootstrap.ParseJoin(joining.Data[bootstrap.JoinSecretKey])
	if err != nil {
		return nil, err
	}
	access, err := b.accessObjects(ctx)
	if err != nil {
		return nil, err
	}
	network := b.cluster.Spec.ClusterNetwork
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
		Address: e.address.String(), Port: e.port, KonnectivityPort: e.konnectivity, AgentImage: agent,
		AdminGroup: bootstrap.AdminGroup, KonnectivityUser: bootstrap.KonnectivityUser, Audience: bootstrap.KonnectivityAudience,
		RoleGroups: map[string]string{"cluster-admin": v1alpha1.GroupClusterAdmin, "edit": v1alpha1.GroupClusterEdit, "view": v1alpha1.GroupClusterView},
		server:     e.machines(), ca: material.CA, access: access,
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

// handOver puts the administrator's kubeconfigs beside the cluster.
func (b *build) handOver(ctx context.Context) error {
	kubeconfigs, err := b.secret(ctx, kubeconfigSecretName)
	if err != nil {
		return err
	}
	if len(kubeconfigs.Data) == 0 {
		return errors.New("the cluster's kubeconfigs are not there: repair the cluster")
	}
	name := v1alpha1.AdminKubeconfigSecret(b.cluster.Name)
	err = permitted(ctx, func(ctx context.Context) error {
		return b.apply(ctx, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: b.owned(name), Data: kubeconfigs.Data,
		})
	})
	if err != nil {
		return err
	}
	b.scope.SetOutput(provisioner.OutputKubeconfig, name)
	return nil
}
