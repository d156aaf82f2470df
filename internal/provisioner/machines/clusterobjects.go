package machines

import (
	"context"
	"embed"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// contents is what the platform puts into a cluster.
type contents struct {
	// RoleGroups are the groups of short-lived kubeconfigs, by ClusterRole.
	RoleGroups map[string]string
}

// applyClusterObjects puts into the cluster's API what the platform promises of every cluster, and hands its
// administrator the keys.
func (b *build) applyClusterObjects(ctx context.Context) error {
	e, err := b.Endpoint(ctx)
	if err != nil {
		return err
	}
	connection, err := b.Connect(ctx, e)
	if err != nil {
		return err
	}
	_, untyped, err := connection.Clients()
	if err != nil {
		return err
	}
	objects, err := b.contents(ctx)
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		return base.Settle(ctx, func(ctx context.Context) error { return apply.Objects(ctx, untyped, b.Manager, objects...) })
	})
	parts.Go(func() error { return b.HandOver(ctx) })
	return parts.Wait()
}

func (b *build) contents(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := b.AccessObjects(ctx)
	if err != nil {
		return nil, err
	}
	files := []string{"access.yaml"}
	if b.podNetwork() {
		files = append(files, "podnetwork.yaml")
	}
	described := contents{RoleGroups: base.RoleGroups()}
	for _, file := range files {
		rendered, err := apply.Render(manifests, "manifests/"+file, described)
		if err != nil {
			return nil, err
		}
		objects = append(objects, rendered...)
	}
	return objects, nil
}

// podNetwork tells whether PrismNET's daemons run beside the distribution, and need permissions: an upstream k3s does not
// bring them along as k8shost does.
func (b *build) podNetwork() bool {
	upstream := b.Cluster.Spec.K3s != nil && b.Cluster.Spec.K3s.Program != nil
	return (b.own.Contents.PodNetwork || upstream) && b.Cluster.Spec.ClusterNetwork.CNI == v1alpha1.CNIPrismNET
}
