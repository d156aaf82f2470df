package hosted

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Drift tells how a cluster's control plane differs from what the last operation made of it, or "": somebody has removed
// or edited a part, or its certificates are due. A repair puts it right. It only looks.
func (p *Provisioner) Drift(ctx context.Context, c *v1alpha1.Cluster, log *slog.Logger) (string, error) {
	b, err := p.begin(&task.Scope{Task: &v1alpha1.Task{}, Object: c, Log: log})
	if err != nil {
		return "", err
	}
	for _, look := range []func(ctx context.Context) (string, error){b.driftOfSecrets, b.driftOfEndpoint, b.driftOfDeployment, b.driftOfPolicies} {
		what, err := look(ctx)
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		if what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

func (b *build) driftOfSecrets(ctx context.Context) (string, error) {
	for _, name := range []string{pkiSecretName, base.KubeconfigSecret, bootstrap.JoinSecretName} {
		secret, err := b.Secret(ctx, name)
		if err != nil {
			return "", err
		}
		if len(secret.Data) == 0 {
			return "secret " + name + " is missing", nil
		}
		if name == pkiSecretName {
			if what := b.due(secret.Data); what != "" {
				return what, nil
			}
		}
	}
	return "", nil
}

// due names a certificate that an operation would renew by now.
func (b *build) due(files map[string][]byte) string {
	now := b.Clock.Now()
	for name, content := range files {
		if !strings.HasSuffix(name, ".crt") {
			continue
		}
		certificates, err := certutil.ParseCertsPEM(content)
		if err != nil {
			continue // not every file is the platform's own to judge
		}
		lifetime := certificates[0].NotAfter.Sub(certificates[0].NotBefore)
		if certificates[0].NotAfter.Sub(now) < lifetime/pki.RenewalFraction && !certificates[0].IsCA {
			return "certificate " + strings.TrimSuffix(name, ".crt") + " is due for renewal"
		}
	}
	return ""
}

func (b *build) driftOfEndpoint(ctx context.Context) (string, error) {
	service, err := b.Client.CoreV1().Services(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	site, err := b.Site(ctx)
	if err != nil {
		return "", err
	}
	wanted := service.DeepCopy()
	b.DescribeService(wanted, site, exposure(false))
	if !equality.Semantic.DeepEqual(wanted.Spec, service.Spec) {
		return "service " + controlPlaneName + " was changed", nil
	}
	return "", nil
}

func (b *build) driftOfDeployment(ctx context.Context) (string, error) {
	deployments := b.Client.AppsV1().Deployments(b.Home)
	have, err := deployments.Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	files, err := b.Secret(ctx, controlPlaneName)
	if err != nil {
		return "", err
	}
	if fingerprint(files.Data) != have.Spec.Template.Annotations[annotationFingerprint] {
		return "secret " + controlPlaneName + " was changed", nil
	}
	wanted, err := b.wantedDeployment(ctx, files.Data)
	if err != nil {
		return "", err
	}
	// The API server fills in what the description leaves open, and says what would become of it.
	updated := have.DeepCopy()
	updated.Spec = wanted.Spec
	updated, err = deployments.Update(ctx, updated, metav1.UpdateOptions{FieldManager: b.Manager, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", err
	}
	if !equality.Semantic.DeepEqual(updated.Spec, have.Spec) {
		return "deployment " + controlPlaneName + " was changed", nil
	}
	_, err = b.Client.PolicyV1().PodDisruptionBudgets(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	return "", err
}

// wantedDeployment describes the Deployment with the files that there are.
func (b *build) wantedDeployment(ctx context.Context, files map[string][]byte) (*appsv1.Deployment, error) {
	offered, version, err := b.Offered()
	if err != nil {
		return nil, err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	return b.describeDeployment(offered, version, e, files)
}

func (b *build) driftOfPolicies(ctx context.Context) (string, error) {
	site, err := b.Site(ctx)
	if err != nil {
		return "", err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return "", err
	}
	for _, object := range append(b.policies(site), b.MachinePolicy(site, e)) {
		wanted, ok := object.(*networkingv1.NetworkPolicy)
		if !ok {
			return "", fmt.Errorf("%T is no policy", object)
		}
		have, err := b.Client.NetworkingV1().NetworkPolicies(b.Home).Get(ctx, wanted.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if !equality.Semantic.DeepEqual(have.Spec, wanted.Spec) {
			return "network policy " + wanted.Name + " was changed", nil
		}
	}
	return "", nil
}
