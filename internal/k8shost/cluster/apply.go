package cluster

import (
	"context"
	"embed"

	"k8s.io/client-go/dynamic"

	"plasmacloud.io/plasmacloud/internal/apply"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// fieldManager names the launcher as the owner of the fields it sets.
const fieldManager = "k8shost"

// Objects are what a server applies to its cluster.
type Objects struct {
	Settings
	CoreDNSImage string
}

// Apply brings the cluster's objects to what this release wants. It may run on several servers at once. Of coredns
// and the rest, names in disabled are left out.
func (o Objects) Apply(ctx context.Context, client dynamic.Interface, disabled func(name string) bool) error {
	for _, name := range []string{"access", "settings", "coredns"} {
		if disabled(name) {
			continue
		}
		objects, err := apply.Render(manifests, "manifests/"+name+".yaml", o)
		if err != nil {
			return err
		}
		if err := apply.Objects(ctx, client, fieldManager, objects...); err != nil {
			return err
		}
	}
	return nil
}
