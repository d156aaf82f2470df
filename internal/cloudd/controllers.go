package cloudd

import (
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/bucket"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/controller/organization"
	"plasmacloud.io/plasmacloud/internal/controller/plan"
	"plasmacloud.io/plasmacloud/internal/controller/project"
	"plasmacloud.io/plasmacloud/internal/controller/stack"
	"plasmacloud.io/plasmacloud/internal/controller/used"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// serviceAccount is who the daemon is to the management cluster.
const serviceAccount = "cloudd"

func (d *Daemon) setupControllers() error {
	c := d.manager.GetClient()
	if err := metrics.Registry.Register(newPhases(c, d.manager.Elected())); err != nil {
		return err
	}
	keeper := d.keeper()
	return errors.Join(
		(&organization.Reconciler{Client: c, Objects: organizationObjects}).SetupWithManager(d.manager),
		(&project.Reconciler{Client: c, Objects: projectObjects}).SetupWithManager(d.manager),
		(&used.Projects{Client: c, Sizes: d.sizes}).SetupWithManager(d.manager),
		(&used.Organizations{Client: c}).SetupWithManager(d.manager),
		(&account.Reconciler{
			Client: c, SSH: d.drivers.hosts, Clouds: d.clouds,
			Daemon: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: d.config.Namespace, Name: serviceAccount},
		}).SetupWithManager(d.manager),
		(&network.Reconciler{Client: c, Keeper: keeper}).SetupWithManager(d.manager),
		(&bucket.Reconciler{Client: c, Keeper: keeper}).SetupWithManager(d.manager),
		(&cluster.Reconciler{
			Client: c, Recorder: d.manager.GetEventRecorder("cloudd"), Concurrency: d.config.Concurrency,
		}).SetupWithManager(d.manager),
		d.setupPlans(),
		d.hosted.setupControllers(),
	)
}

// setupPlans has tasks look at what is in clouds.
func (d *Daemon) setupPlans() error {
	limits := plan.DefaultLimits()
	limits.Interval, limits.Attempts = d.config.DriftInterval, d.config.RepairAttempts
	var problems []error
	for _, kind := range plan.Kinds() {
		reconciler := &plan.Reconciler{Client: d.manager.GetClient(), Kind: kind, Limits: limits, Clock: clock.RealClock{}}
		problems = append(problems, reconciler.SetupWithManager(d.manager))
	}
	return errors.Join(problems...)
}

// keeper has tasks make what is in clouds.
func (d *Daemon) keeper() *stack.Keeper {
	return &stack.Keeper{Client: d.manager.GetClient(), Recorder: d.manager.GetEventRecorder("cloudd")}
}

// sizes are those of the catalogue.
func (d *Daemon) sizes() (usage.Sizer, error) { return d.offers.get() }

func projectObjects(project *v1alpha1.Project) []client.Object {
	return objects(rbac.Management.ForProject(project))
}

func organizationObjects(organization *v1alpha1.Organization, projects, users []string) []client.Object {
	return objects(rbac.ForOrganization(organization, projects, users))
}

func objects(templates []rbac.Object) []client.Object {
	objects := make([]client.Object, 0, len(templates))
	for _, template := range templates {
		objects = append(objects, template)
	}
	return objects
}
