package hosted

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

var _ provisioner.Auditor = (*Provisioner)(nil)

// Audit implements provisioner.Auditor: it tells how a cluster's control plane differs from what the last operation made
// of it. Somebody has removed or edited a part, its certificates are due, or its pods do not run. All of it takes many
// requests, and what is edited is told of by a watch: only thorough audits look.
func (p *Provisioner) Audit(ctx context.Context, c *v1alpha1.Cluster, thorough bool) ([]v1alpha1.Finding, error) {
	if !thorough {
		return nil, nil
	}
	b, err := p.begin(&task.Scope{Task: &v1alpha1.Task{}, Object: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	const (
		certificates  = "certificates"
		configuration = "configuration"
		components    = "components"
	)
	var findings []v1alpha1.Finding
	for _, one := range []struct {
		check string
		look  func(ctx context.Context) (string, error)
	}{
		{certificates, b.dueCertificates},
		{configuration, b.driftOfSecrets},
		{configuration, b.driftOfEndpoint},
		{configuration, b.driftOfDeployment},
		{configuration, b.driftOfPolicies},
		{components, b.troubleOfPods},
	} {
		what, err := one.look(ctx)
		if apierrors.IsNotFound(err) {
			what, err = err.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		if what != "" {
			findings = append(findings, v1alpha1.Finding{Check: one.check, Message: what, Repairable: true})
		}
	}
	lost, err := b.lostAuthorities(ctx)
	if err != nil || lost == "" {
		return findings, err
	}
	return []v1alpha1.Finding{{
		Check: certificates, Message: lost, Remedy: "restore them from a backup of the management cluster, or make a new cluster",
	}}, nil
}

// troubleOfPods tells what keeps the control plane's pods from running.
func (b *build) troubleOfPods(ctx context.Context) (string, error) {
	if _, err := b.look(ctx, true); err != nil {
		return err.Error(), ctx.Err()
	}
	return "", nil
}

// lostAuthorities tells of a cluster whose identity is gone: it is kept in two places, and cannot be made anew.
func (b *build) lostAuthorities(ctx context.Context) (string, error) {
	for _, name := range []string{pkiSecretName, controlPlaneName} {
		secret, err := b.Secret(ctx, name)
		if err != nil || len(secret.Data) > 0 {
			return "", err
		}
	}
	return "the cluster's authorities are lost: secrets " + pkiSecretName + " and " + controlPlaneName + " in namespace " + b.Home + " are gone", nil
}
