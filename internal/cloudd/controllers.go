package cloudd

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/account"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/controller/organization"
	"plasmacloud.io/plasmacloud/internal/controller/project"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
)

func (d *Daemon) setupControllers() error {
	c := d.manager.GetClient()
	return errors.Join(
		(&organization.Reconciler{Client: c}).SetupWithManager(d.manager),
		(&project.Reconciler{Client: c, Objects: d.projectObjects}).SetupWithManager(d.manager),
		(&account.Reconciler{Client: c}).SetupWithManager(d.manager),
		(&network.Reconciler{Client: c}).SetupWithManager(d.manager),
		(&cluster.Reconciler{
			Client: c, Recorder: d.manager.GetEventRecorder("cloudd"), Concurrency: d.config.Concurrency,
		}).SetupWithManager(d.manager),
	)
}

// projectObjects are what a project's namespace is made of.
func (d *Daemon) projectObjects(project *v1alpha1.Project) ([]client.Object, error) {
	var objects []client.Object
	for _, object := range rbac.Management.ForProject(project) {
		typed, ok := object.(client.Object)
		if !ok {
			return nil, errors.New("a template is no object of the API")
		}
		objects = append(objects, typed)
	}
	return objects, nil
}
