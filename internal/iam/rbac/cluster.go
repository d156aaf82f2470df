package rbac

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam/review"
)

// ClusterAdmin is the name of the role of those who run the platform.
const ClusterAdmin = "plasmacloud-cluster-admin"

// ForCluster is what is there once in a cluster: what administrators may do, and what tenants may not, whatever their
// roles say.
func (p Place) ForCluster() []Object {
	objects := clusterRole(ClusterAdmin, groups(review.GroupPlatformAdmin),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "persistentvolumes"}, Verbs: everything()},
		rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: everything()},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: everything()},
	)
	objects = append(objects, tenancyGuard()...)
	if p == Tenant {
		return objects
	}
	// A platform administrator may do everything with the platform itself; in a tenant's cluster, what is above.
	objects = append(objects, clusterBinding("plasmacloud-platform-admin-binding", "cluster-admin", groups(review.GroupPlatformAdmin)))
	// An organization's administrators make projects and users; the guard sees to it that they are the organization's.
	objects = append(objects, clusterRole("plasmacloud-org-admin", groups(review.GroupOrgAdmin),
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"projects", "users"}, Verbs: []string{"create"}})...)
	objects = append(objects, workloadGuard()...)
	return append(objects, identityGuard()...)
}

// ForService is what the identity service itself needs, as a service account of the platform's own namespace, and no more.
func ForService(namespace, serviceAccount string) []Object {
	const name = "plasmacloud-iam"
	group := []string{v1alpha1.GroupVersion.Group}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: serviceAccount}}
	objects := clusterRole(name, subjects,
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"users", "accesstokens", "organizations", "projects"}, Verbs: reading()},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"users/status", "accesstokens/status"}, Verbs: []string{"update", "patch"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"accesstokens"}, Verbs: []string{"create", "patch"}},
	)
	meta := clusterMeta(name)
	meta.Namespace = namespace
	binding := clusterMeta(name + "-binding")
	binding.Namespace = namespace
	return append(objects,
		&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: append(reading(), "create", "update", "delete"),
		}}},
		&rbacv1.RoleBinding{
			TypeMeta: rbacType("RoleBinding"), ObjectMeta: binding, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		})
}

// guard is a policy of admission for tenants: all who are in an organization, but not those who run the platform.
type guard struct {
	name        string
	rules       []admissionv1.NamedRuleWithOperations
	validations []admissionv1.Validation
}

// tenants is true of a request of a tenant. An API server that lets in others under the same names has been told so by
// somebody with access to its certificates.
var tenants = fmt.Sprintf(`request.userInfo.groups.exists(g, g.startsWith(%q)) && !(%q in request.userInfo.groups)`,
	review.OrganizationGroup(""), review.GroupPlatformAdmin)

func (g guard) objects() []Object {
	fail := admissionv1.Fail
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: name}
	}
	return []Object{
		&admissionv1.ValidatingAdmissionPolicy{
			TypeMeta: kind("ValidatingAdmissionPolicy"), ObjectMeta: clusterMeta(g.name),
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy:    &fail,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: g.rules},
				MatchConditions:  []admissionv1.MatchCondition{{Name: "tenants", Expression: tenants}},
				Validations:      g.validations,
			},
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: kind("ValidatingAdmissionPolicyBinding"), ObjectMeta: clusterMeta(g.name + "-binding"),
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: g.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		},
	}
}

func on(group, resources string, operations ...admissionv1.OperationType) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: strings.Fields(resources)},
	}}
}

// never refuses everything that the rules match.
func never(message string) []admissionv1.Validation {
	return []admissionv1.Validation{{Expression: "false", Message: message}}
}

// tenancyGuard keeps what bounds a project out of the hands of its own administrators. Their roles allow everything in
// the namespace, and with that the labels that keep privileged pods out, the quotas, and what controllers report.
func tenancyGuard() []Object {
	return guard{
		name: "plasmacloud-tenancy",
		rules: []admissionv1.NamedRuleWithOperations{
			on("", "namespaces namespaces/*", admissionv1.OperationAll),
			on("", "resourcequotas resourcequotas/* limitranges", admissionv1.OperationAll),
			on(v1alpha1.GroupVersion.Group, "*/status", admissionv1.OperationAll),
		},
		validations: never("namespaces, quotas and what the platform reports are kept by the platform"),
	}.objects()
}

// workloadGuard keeps tenants' programs out of the management cluster, and tenants out of the platform's programs.
func workloadGuard() []Object {
	change := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	return guard{
		name: "plasmacloud-workloads",
		rules: []admissionv1.NamedRuleWithOperations{
			on("", "pods pods/* podtemplates replicationcontrollers replicationcontrollers/* persistentvolumeclaims services", change...),
			on("", "pods/* services/proxy", admissionv1.Connect),
			on("apps", "*/*", change...),
			on("batch", "*/*", change...),
		},
		validations: never("this is the management cluster: run workloads in a cluster of yours (cloud k8s create)"),
	}.objects()
}

// identityGuard keeps an organization's administrators to their organization, and keeps them from making themselves
// more than that.
func identityGuard() []Object {
	const users = `request.resource.resource != "users" || `
	return guard{
		name: "plasmacloud-identities",
		rules: []admissionv1.NamedRuleWithOperations{
			on(v1alpha1.GroupVersion.Group, "projects users", admissionv1.Create, admissionv1.Update, admissionv1.Delete),
		},
		validations: []admissionv1.Validation{
			{
				Expression: `("org:" + (object == null ? oldObject : object).spec.organization + ":admin") in request.userInfo.groups`,
				Message:    "spec.organization: it is not yours to administer; name your own",
			},
			{
				Expression: users + `![object, oldObject].exists(o, o != null && has(o.spec.platformAdmin) && o.spec.platformAdmin)`,
				Message:    "spec.platformAdmin: only a platform administrator makes or changes one",
			},
			{
				Expression: users + `object == null || (oldObject == null ? !has(object.spec.passwordSecret) : ` +
					`has(object.spec.passwordSecret) == has(oldObject.spec.passwordSecret) && ` +
					`(!has(object.spec.passwordSecret) || object.spec.passwordSecret == oldObject.spec.passwordSecret))`,
				Message: "spec.passwordSecret: the platform keeps it; leave it out",
			},
		},
	}.objects()
}
