package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/iam"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
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
		add("identities", "", in.identityProblem(ctx))
		add("admission", "", in.admissionProblem(ctx))
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
	err := in.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: daemon}, deployment)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("it is not installed; `cloud up` installs it")
	}
	if err != nil {
		return err
	}
	if deployment.Status.ReadyReplicas > 0 {
		return nil
	}
	waiting, err := in.waitingPods(ctx)
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		return fmt.Errorf("none of its pods is ready: %w", waiting[0])
	}
	return fmt.Errorf("none of its pods is ready; `kubectl -n %s logs deployment/%s` tells why", Namespace, daemon)
}

// identityProblem is why nobody can log in.
func (in *installation) identityProblem(ctx context.Context) error {
	if err := in.findIAM(ctx); err != nil {
		return err
	}
	ca, err := in.ca(ctx)
	if err != nil {
		return err
	}
	endpoint, err := in.iamEndpoint(ctx)
	if err != nil {
		return err
	}
	service, err := iam.New(endpoint, string(ca))
	if err != nil {
		return err
	}
	if err := service.Ready(ctx); err != nil {
		return err
	}
	if in.embedded() && !in.asksUs(datadir.New(in.target.DataDir)) {
		return errors.New("the API server was started without its webhook; `cloud up` restarts it")
	}
	return nil
}

// admissionProblem is why the API accepts what it should not, or nothing at all.
func (in *installation) admissionProblem(ctx context.Context) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := in.client.Get(ctx, client.ObjectKey{Name: admission.ConfigurationName}, configuration); err != nil {
		return fmt.Errorf("it is not switched on (%w); `cloud up` does so", err)
	}
	ca, err := in.ca(ctx)
	if err != nil {
		return err
	}
	for _, webhook := range configuration.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, ca) {
			return errors.New("it trusts another authority than the platform's; `cloud up` mends it")
		}
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
