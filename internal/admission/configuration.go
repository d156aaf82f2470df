package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// Path is where the webhook is served.
	Path = "/apis/admission.plasmacloud.io/v1/validate"
	// ConfigurationName is the name of the ValidatingWebhookConfiguration.
	ConfigurationName = "plasmacloud"

	webhookName    = "validate.admission.plasmacloud.io"
	timeoutSeconds = 10
)

// Service is the webhook behind a Service of the cluster that it validates.
func Service(namespace, name string, port int32, caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	path := Path
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Port: &port, Path: &path},
		CABundle: caBundle,
	}
}

// Configuration makes an API server ask the webhook about requests to our kinds, and to ours only: without an answer it
// refuses them (failure policy Fail), and nobody else's. Platform is the user that the platform's own controllers are.
//
// It is not asked about what it would not look at: status, which is a subresource of its own; updates that leave the spec
// as it is, such as controllers' finalizers, which have to go on while the webhook is away; and what the platform itself
// does to machines, tasks and node groups, which follow from clusters that were admitted.
func Configuration(endpoint admissionregistrationv1.WebhookClientConfig, platform string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	var (
		fail       = admissionregistrationv1.Fail
		equivalent = admissionregistrationv1.Equivalent
		effects    = admissionregistrationv1.SideEffectClassNoneOnDryRun // the ledger
		timeout    = int32(timeoutSeconds)
	)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    webhookName,
			ClientConfig:            endpoint,
			AdmissionReviewVersions: []string{"v1"},
			FailurePolicy:           &fail,
			MatchPolicy:             &equivalent,
			SideEffects:             &effects,
			TimeoutSeconds:          &timeout,
			MatchConditions:         matchConditions(platform),
			Rules: []admissionregistrationv1.RuleWithOperations{
				asks([]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
					"projects", "users", "accesstokens", "accounts", "networks", "clusters", "nodegroups", "nodegroups/scale", "machines", "tasks", "buckets"),
				asks([]admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					"organizations", "projects", "accounts", "networks", "clusters"),
			},
		}},
	}
}

func asks(operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
	every := admissionregistrationv1.AllScopes
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{v1alpha1.GroupVersion.Version},
			Resources: resources, Scope: &every,
		},
	}
}

func matchConditions(platform string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{
			Name:       "changes-the-spec",
			Expression: "request.operation != 'UPDATE' || (has(object.spec) ? !has(oldObject.spec) || object.spec != oldObject.spec : has(oldObject.spec))",
		},
		{
			Name: "is-not-the-platforms-own",
			Expression: fmt.Sprintf("request.userInfo.username != %q || (has(request.subResource) && request.subResource == 'scale')"+
				" || !(request.resource.resource in ['machines', 'tasks', 'nodegroups'])", platform),
		},
	}
}
