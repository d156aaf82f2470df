package hosted

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

func (b *build) driftOfSecrets(ctx context.Context) (string, error) {
	for _, name := range []string{pkiSecretName, base.KubeconfigSecret, bootstrap.JoinSecretName} {
		secret, err := b.Secret(ctx, name)
		if err != nil {
			return "", err
		}
		if len(secret.Data) == 0 {
			return "secret " + name + " is missing", nil
		}
	}
	return "", nil
}

// dueCertificates names a certificate that an operation would renew by now.
func (b *build) dueCertificates(ctx context.Context) (string, error) {
	secret, err := b.Secret(ctx, pkiSecretName)
	if err != nil {
		return "", err
	}
	return b.due(secret.Data), nil
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
	site, err := b.Site(ctx)
	if err != nil {
		return "", err
	}
	return b.DriftOfService(ctx, site, exposure(false))
}

func (b *build) driftOfDeployment(ctx context.Context) (string, error) {
	have, err := b.Client.AppsV1().Deployments(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
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
	return b.DriftOfDeployment(ctx, wanted)
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
	return b.DriftOfPolicies(ctx, append(b.policies(site), b.MachinePolicy(site, e)))
}
