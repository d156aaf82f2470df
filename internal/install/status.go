package install

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
)

// Status implements platform.Installer.
func (i *Installer) Status(ctx context.Context, options platform.StatusOptions, progress platform.Progress) (*platform.Report, error) {
	in, err := i.open(options.Target, progress)
	if err != nil {
		return nil, err
	}
	if err := in.connect(); err != nil {
		return nil, exit.NotFoundf("start it with `cloud up`", "%v", err)
	}
	report := &platform.Report{}
	add := func(name, version string, problem error) {
		component := platform.Component{Name: name, Ready: problem == nil, Version: version}
		if problem != nil {
			component.Message = problem.Error()
		}
		report.Components = append(report.Components, component)
	}
	version, err := in.apiVersion()
	add("management API", version, err)
	if err == nil {
		add("daemon", "", in.daemonProblem(ctx))
		add("default project", "", in.projectProblem(ctx))
	}
	return report, nil
}

func (in *installation) apiVersion() (string, error) {
	api, err := discovery.NewDiscoveryClientForConfig(in.rest)
	if err != nil {
		return "", err
	}
	version, err := api.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("it does not answer (%w); `cloud up` starts it", err)
	}
	return version.GitVersion, nil
}

func (in *installation) daemonProblem(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: "cloudd"}, deployment)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("it is not installed; `cloud up` installs it")
	}
	if err != nil {
		return err
	}
	if deployment.Status.ReadyReplicas == 0 {
		return fmt.Errorf("none of its pods is ready; `kubectl -n %s logs deployment/cloudd` tells why", Namespace)
	}
	return nil
}

func (in *installation) projectProblem(ctx context.Context) error {
	project := &v1alpha1.Project{}
	if err := in.client.Get(ctx, client.ObjectKey{Name: defaultName}, project); err != nil {
		return err
	}
	if project.Status.Phase != v1alpha1.PhaseRunning {
		return fmt.Errorf("it is %s", project.Status.Phase)
	}
	return nil
}
