package base

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What somebody has edited is told in a few words, or with "" where nothing is. What is not there is a NotFound error.

// DriftOfService compares the endpoint's Service with what it should be.
func (b *Build) DriftOfService(ctx context.Context, site Site, exposure Exposure) (string, error) {
	service, err := b.Client.CoreV1().Services(b.Home).Get(ctx, ServiceName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	wanted := service.DeepCopy()
	b.DescribeService(wanted, site, exposure)
	if !equality.Semantic.DeepEqual(wanted.Spec, service.Spec) {
		return "service " + ServiceName + " was changed", nil
	}
	return "", nil
}

// DriftOfDeployment compares a Deployment with what it should be, and looks for its disruption budget.
func (b *Build) DriftOfDeployment(ctx context.Context, wanted *appsv1.Deployment) (string, error) {
	deployments := b.Client.AppsV1().Deployments(b.Home)
	have, err := deployments.Get(ctx, wanted.Name, metav1.GetOptions{})
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
		return "deployment " + wanted.Name + " was changed", nil
	}
	_, err = b.Client.PolicyV1().PodDisruptionBudgets(b.Home).Get(ctx, wanted.Name, metav1.GetOptions{})
	return "", err
}

// DriftOfPolicies compares network policies with what they should be.
func (b *Build) DriftOfPolicies(ctx context.Context, policies []runtime.Object) (string, error) {
	for _, object := range policies {
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
