package cloudd

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/nodegroup"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/provisioner/hosted"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// etcdImage is what the catalogue calls the image of etcd.
const etcdImage = "etcd"

// hostedClusters is what clusters with a hosted control plane need of the daemon.
type hostedClusters struct {
	*Daemon
	api     kubernetes.Interface
	dynamic dynamic.Interface
	// provisioner knows the steps that make them.
	provisioner *hosted.Provisioner

	// The shared datastore is described by the catalogue, which can be read once the daemon runs.
	mu     sync.Mutex
	shared *datastore.Shared
}

func (d *Daemon) newHostedClusters() (*hostedClusters, error) {
	api, err := kubernetes.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return nil, err
	}
	dynamicAPI, err := dynamic.NewForConfig(d.manager.GetConfig())
	if err != nil {
		return nil, err
	}
	certificates := authority.New(store.NewRecord(api, d.config.Namespace, authority.SecretName, store.KindAuthority),
		d.config.Scratch, clock.RealClock{}, d.log)
	if err := d.manager.Add(always(certificates.Run)); err != nil {
		return nil, err
	}
	h := &hostedClusters{Daemon: d, api: api, dynamic: dynamicAPI}
	shared := base.Config{
		Client: api, Dynamic: dynamicAPI,
		Identities:  authority.NewClients(certificates, api, d.config.Namespace, clock.RealClock{}, d.log),
		IdentityURL: d.config.IAMIssuer, Catalogue: d.offers.get, Site: h.site,
		Platform: d.config.Namespace, Account: "cloudd", Clock: clock.RealClock{},
		PullPolicy: corev1.PullPolicy(d.config.ImagePullPolicy),
	}
	if d.machines, err = d.newMachineClusters(shared); err != nil {
		return nil, err
	}
	h.provisioner, err = hosted.New(hosted.Config{Config: shared, Datastore: h.datastore, Scratch: d.config.Scratch})
	return h, err
}

// setupControllers keeps the machines of clusters, their control planes as they should be, and the datastore that they
// share.
func (h *hostedClusters) setupControllers() error {
	tenants := tenant.New(tenant.Config{
		API: h.api, Addresses: machinecontroller.Addresses(h.manager.GetClient()), Clock: clock.RealClock{}, Log: h.log,
	})
	setup := machinecontroller.NewBackground(h.machines.joiner(), clock.RealClock{}, machinecontroller.BackgroundConfig{})
	machines := &machinecontroller.Reconciler{
		Client: h.manager.GetClient(), API: h.api, Tenants: tenants, Setup: setup, Recorder: h.manager.GetEventRecorder("cloudd"), Clock: clock.RealClock{},
		Drivers: h.drivers.byProvider(), Catalogue: h.offers.get, Concurrency: h.config.Concurrency,
	}
	keys := &machinecontroller.Rotation{
		Client: h.manager.GetClient(), API: h.api, Drivers: h.drivers.byProvider(), Recorder: h.manager.GetEventRecorder("cloudd"),
	}
	groups := &nodegroup.Reconciler{
		Client: h.manager.GetClient(), Live: h.manager.GetAPIReader(), Recorder: h.manager.GetEventRecorder("cloudd"), Clock: clock.RealClock{},
		Catalogue: h.offers.get, Concurrency: h.config.Concurrency,
	}
	for _, setup := range []func() error{
		func() error { return machines.SetupWithManager(h.manager) },
		func() error { return groups.SetupWithManager(h.manager) },
		func() error { return keys.SetupWithManager(h.manager) },
		func() error { return h.manager.Add(leading(h.keepDatastore)) },
		func() error { return h.setupAudit(tenants) },
		func() error {
			return h.manager.Add(always(func(ctx context.Context) error {
				<-ctx.Done()
				setup.Close()
				tenants.Close()
				return nil
			}))
		},
	} {
		if err := setup(); err != nil {
			return err
		}
	}
	return nil
}

// keepDatastore installs the shared datastore, and looks after it. An installation whose release has no etcd makes no
// hosted clusters, and works for all others.
func (h *hostedClusters) keepDatastore(ctx context.Context) error {
	err := h.offers.await(ctx, h.manager.GetCache(), h.log, func() error {
		_, err := h.datastoreConfig()
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	shared, err := h.sharedDatastore()
	if err != nil {
		return err
	}
	return shared.Run(ctx)
}

// datastore is the one that a cluster asks for.
func (h *hostedClusters) datastore(c *v1alpha1.Cluster) (hosted.Datastore, error) {
	wanted := c.Spec.ControlPlane.Datastore
	if wanted.Mode != v1alpha1.DatastoreDedicated {
		return h.sharedDatastore()
	}
	config, err := h.datastoreConfig()
	if err != nil {
		return nil, err
	}
	config.Namespace, config.Replicas = v1alpha1.InfrastructureNamespace(c), int(wanted.Replicas)
	config.Labels = map[string]string{v1alpha1.LabelCluster: c.Name}
	return datastore.NewDedicated(config)
}

func (h *hostedClusters) sharedDatastore() (*datastore.Shared, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shared != nil {
		return h.shared, nil
	}
	config, err := h.datastoreConfig()
	if err != nil {
		return nil, err
	}
	config.Registry = metrics.Registry
	h.shared, err = datastore.NewShared(config)
	return h.shared, err
}

func (h *hostedClusters) datastoreConfig() (datastore.Config, error) {
	offered, err := h.offers.get()
	if err != nil {
		return datastore.Config{}, err
	}
	if len(offered.KubernetesVersions) == 0 {
		return datastore.Config{}, fmt.Errorf("the catalogue has no version of Kubernetes")
	}
	image, err := offered.Image(offered.KubernetesVersions[0], etcdImage)
	if err != nil {
		return datastore.Config{}, err
	}
	tools, err := offered.Image(offered.KubernetesVersions[0], release.ImageToolbox)
	if err != nil {
		return datastore.Config{}, err
	}
	return datastore.Config{
		API: h.api, Dynamic: h.dynamic, Namespace: h.config.Namespace, Platform: h.config.Namespace, Image: image, ToolImage: tools,
		Storage: datastore.Storage{Class: h.config.StorageClass, Directory: h.config.StorageDirectory},
		Clock:   clock.RealClock{}, Logger: h.log,
	}, nil
}
