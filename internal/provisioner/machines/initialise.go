package machines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	certutil "k8s.io/client-go/util/cert"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/task"
)

// initialise begins the control plane, and prepares the other machines meanwhile.
func (b *build) initialise(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return b.prepareOthers(ctx) })
	parts.Go(func() error { return b.beginControlPlane(ctx) })
	return parts.Wait()
}

// beginControlPlane makes the first machine a control plane, keeps its keys, and tells workers how to join: they do from then
// on, while the other machines of the control plane do.
func (b *build) beginControlPlane(ctx context.Context) error {
	described, err := b.describe(ctx)
	if err != nil {
		return err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return err
	}
	kept, err := b.Secret(ctx, base.KubeconfigSecret)
	if err != nil {
		return err
	}
	if described.CA != nil && !b.due(kept.Data) {
		return b.publish(ctx, e, described.CA)
	}
	credentials, err := b.initFirst(ctx, described)
	if err != nil {
		return err
	}
	kubeconfigs, err := b.Kubeconfigs(e, base.Administrators{
		CA:        credentials.CA,
		AdminName: pki.Admin, Admin: bootstrap.Credentials{Cert: credentials.AdminCert, Key: credentials.AdminKey},
		SuperAdminName: bootstrap.SuperAdmin, SuperAdmin: bootstrap.Credentials{Cert: credentials.SuperAdminCert, Key: credentials.SuperAdminKey},
	})
	if err != nil {
		return err
	}
	// Whoever sees the kubeconfigs finds out how to join, too.
	if err := b.publish(ctx, e, credentials.CA); err != nil {
		return err
	}
	return b.KeepExactly(ctx, base.KubeconfigSecret, kubeconfigs)
}

// publish tells workers how to join.
func (b *build) publish(ctx context.Context, e base.Endpoint, ca []byte) error {
	offered, version, err := b.Offered()
	if err != nil {
		return err
	}
	image, err := offered.Image(version, release.ImageNode)
	if err != nil {
		return err
	}
	if err := b.PublishJoin(ctx, e, version, bootstrap.Join{CA: ca, NodeImage: image}); err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputVersion, version)
	return nil
}

// initFirst initialises the control plane on the first machine that it has.
func (b *build) initFirst(ctx context.Context, described hostsetup.Cluster) (credentials hostsetup.Credentials, err error) {
	distribution, err := b.distribution()
	if err != nil {
		return credentials, err
	}
	first, err := b.first(ctx)
	if err != nil {
		return credentials, err
	}
	host, err := b.host(ctx, first)
	if err != nil {
		return credentials, err
	}
	b.Scope.Report("%s: the control plane begins here", first.Name)
	err = b.Unless(ctx, func(ctx context.Context) error {
		credentials, err = distribution.Init(ctx, host, described)
		return err
	})
	return credentials, err
}

// first is a machine that is in the control plane; of a new one, the one that it begins with.
func (b *build) first(ctx context.Context) (*v1alpha1.Machine, error) {
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if m, err := named(machines, member.Name); err == nil && !lost(m) {
			return m, nil
		}
	}
	return nil, errors.New("no machine is in the control plane")
}

// due tells whether the administrator's certificates are missing, or have less than a third of their time left.
func (b *build) due(kubeconfigs map[string][]byte) bool {
	config, err := base.Credentials(kubeconfigs[v1alpha1.KubeconfigSuperAdminService])
	if err != nil {
		return true
	}
	certificates, err := certutil.ParseCertsPEM(config.Cert)
	if err != nil {
		return true
	}
	lifetime := certificates[0].NotAfter.Sub(certificates[0].NotBefore)
	return certificates[0].NotAfter.Sub(b.Clock.Now()) < lifetime/pki.RenewalFraction
}

// joinControlPlane joins the machines that are not in the control plane yet: each once the datastore has taken in the one before
// it, and while that one's API server starts.
func (b *build) joinControlPlane(ctx context.Context) error {
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return err
	}
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	distribution, err := b.distribution()
	if err != nil {
		return err
	}
	described, err := b.describe(ctx)
	if err != nil {
		return err
	}
	joining, joinCtx := errgroup.WithContext(ctx)
	for i := range machines {
		m := &machines[i]
		if isMember(members, m.Name) {
			continue
		}
		b.Scope.Report("%s joins the control plane, %d of %d", m.Name, i+1, len(machines))
		admitted := make(chan struct{})
		admit := sync.OnceFunc(func() { close(admitted) })
		joining.Go(func() error {
			defer admit()
			if err := b.join(joinCtx, distribution, m, described, admit); err != nil {
				return err
			}
			return b.enter(joinCtx, m)
		})
		<-admitted
		if joinCtx.Err() != nil {
			break // it has failed
		}
	}
	if err := joining.Wait(); err != nil {
		return err
	}
	return b.removeSurplus(ctx, distribution)
}

func (b *build) join(ctx context.Context, distribution hostsetup.Distribution, m *v1alpha1.Machine, described hostsetup.Cluster, admitted func()) error {
	first, err := b.first(ctx)
	if err != nil {
		return err
	}
	through, err := b.host(ctx, first)
	if err != nil {
		return err
	}
	host, err := b.host(ctx, m)
	if err != nil {
		return err
	}
	return b.Unless(ctx, func(ctx context.Context) error {
		return distribution.JoinControlPlane(ctx, host, through, described, admitted)
	})
}

// awaitNodes waits until all nodes are ready, those of the control plane too.
func (b *build) awaitNodes(ctx context.Context) error {
	watchers := []base.Watcher{b.WatchResource(base.ResourceMachines)}
	return b.AwaitNodes(ctx, 5*time.Second, watchers, func(ctx context.Context, _, _ bool) (bool, string, error) {
		machines, err := b.controlPlane(ctx)
		if err != nil {
			return false, "", err
		}
		for i := range machines {
			if m := &machines[i]; !ready(m) {
				return false, fmt.Sprintf("machine %s of the control plane is not ready: %s", m.Name, message(m)), nil
			}
		}
		return true, "", nil
	})
}

// quorum says why a repair is refused that would leave the datastore without a majority.
func quorum(err error) error {
	if errors.Is(err, hostsetup.ErrQuorum) {
		return task.Permanent(fmt.Errorf("%w: bring back one of the machines that are lost, or restore a backup into a new cluster", err))
	}
	return err
}
