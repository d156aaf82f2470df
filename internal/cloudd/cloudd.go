package cloudd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Daemon is one process.
type Daemon struct {
	config  *Config
	log     *slog.Logger
	manager manager.Manager
	drivers *drivers
	hosted  *hostedClusters
	// machines are clusters on machines; they come with the hosted ones.
	machines *machineClusters
	// clouds are infrastructure in clouds; nil where the installation makes none.
	clouds *clouds
	offers *offers
	// Version of the platform, and the name of this process.
	Version, Identity string
}

// Run runs the roles that the configuration names until ctx ends.
func Run(ctx context.Context, config *Config, api *rest.Config, version, identity string, log *slog.Logger) error {
	m, err := newManager(config, api, identity, log)
	if err != nil {
		return err
	}
	d := &Daemon{config: config, log: log, manager: m, Version: version, Identity: identity}
	d.offers = &offers{reader: m.GetClient(), namespace: config.Namespace} // before those who ask it
	if d.drivers, err = d.newDrivers(); err != nil {
		return err
	}
	if config.has(RoleControllers) || config.has(RoleWorkers) {
		if d.hosted, err = d.newHostedClusters(); err != nil {
			return err
		}
		if d.clouds, err = d.newClouds(ctx); err != nil {
			return fmt.Errorf("set up clouds: %w", err)
		}
	}
	for _, part := range []struct {
		role  Role
		setup func() error
	}{
		{RoleIAM, d.setupIAM},
		{RoleAdmission, d.setupAdmission},
		{RoleControllers, d.setupControllers},
	} {
		if config.has(part.role) {
			if err := part.setup(); err != nil {
				return fmt.Errorf("set up %s: %w", part.role, err)
			}
		}
	}
	if err := d.setupTasks(); err != nil {
		return fmt.Errorf("set up tasks: %w", err)
	}
	log.Info("starting", "version", version, "roles", config.Roles, "queue", config.Queue)
	return m.Start(ctx)
}

func newManager(config *Config, api *rest.Config, identity string, log *slog.Logger) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The API server has its own fair queueing; what a client holds back helps nobody.
	api.QPS, api.Burst = -1, 0
	lock, err := leaderLock(config, api, identity)
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(log.Handler()),
		LeaderElection: config.has(RoleControllers), LeaderElectionResourceLockInterface: lock,
		// A stopped leader lets the next one begin at once.
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        config.HealthAddress,
		PprofBindAddress:              config.ProfileAddress,
		Metrics: metricsserver.Options{
			BindAddress: config.MetricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			// Secrets and ConfigMaps of tenants are none of the daemon's business.
			&corev1.Secret{}:    {Namespaces: map[string]cache.Config{config.Namespace: {}}},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{config.Namespace: {}}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the management API: %w", err)
	}
	if err := errors.Join(m.AddHealthzCheck("alive", healthz.Ping), m.AddReadyzCheck("caches", cachesSynced(m))); err != nil {
		return nil, err
	}
	return m, nil
}

// leaderLock is held under the process's name. A pod whose container was killed is the same one to it, and goes on at once
// instead of waiting until its own lease has expired: the container before it is gone for certain.
func leaderLock(config *Config, api *rest.Config, identity string) (resourcelock.Interface, error) {
	const name = "cloudd"
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, config.Namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, rest.AddUserAgent(rest.CopyConfig(api), "leader-election"), 10*time.Second)
}

func cachesSynced(m manager.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if !m.GetCache().WaitForCacheSync(request.Context()) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
}

// always is a part that runs in every process, leader or not.
type always func(ctx context.Context) error

func (a always) Start(ctx context.Context) error { return a(ctx) }
func (always) NeedLeaderElection() bool          { return false }

// leading is a part that runs in the leader only.
type leading func(ctx context.Context) error

func (l leading) Start(ctx context.Context) error { return l(ctx) }
func (leading) NeedLeaderElection() bool          { return true }
