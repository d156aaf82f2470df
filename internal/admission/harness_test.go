package admission

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/catalogue"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// scheme knows Kubernetes' kinds and ours.
func scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

// offers is an installation with two versions of Kubernetes and some types of clusters.
func offers() (*catalogue.Catalogue, error) {
	var types []catalogue.ClusterType
	for _, name := range []v1alpha1.ClusterType{v1alpha1.ClusterHosted, v1alpha1.ClusterKubeadm, v1alpha1.ClusterEKS, v1alpha1.ClusterFake} {
		types = append(types, catalogue.ClusterType{Name: name, Capabilities: []catalogue.Capability{catalogue.CanCreate}})
	}
	return catalogue.New([]string{"v1.36.3", "v1.35.4"}, types)
}

// validator looks at a world of the given objects.
func validator(t *testing.T, objects ...client.Object) *Validator {
	t.Helper()
	world := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(objects...).Build()
	now := func() time.Time { return noon }
	return New(Config{Cached: world, Live: world, Catalogue: offers, Ledger: ledger.New(world, world, "plasmacloud-system", now), Now: now})
}

// ask is a request as an API server sends it.
func ask(t *testing.T, operation admissionv1.Operation, object, old client.Object) admission.Request {
	t.Helper()
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "u", Operation: operation}}
	for _, part := range []struct {
		object client.Object
		raw    *runtime.RawExtension
	}{{object, &request.Object}, {old, &request.OldObject}} {
		if part.object == nil {
			continue
		}
		kind, err := apiutil.GVKForObject(part.object, scheme())
		if err != nil {
			t.Fatal(err)
		}
		if part.raw.Raw, err = json.Marshal(part.object); err != nil {
			t.Fatal(err)
		}
		request.Kind = metav1.GroupVersionKind(kind)
		request.Resource = metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
		request.Name, request.Namespace = part.object.GetName(), part.object.GetNamespace()
	}
	return request
}

func creating(t *testing.T, object client.Object) admission.Request {
	return ask(t, admissionv1.Create, object, nil)
}

func deleting(t *testing.T, object client.Object) admission.Request {
	return ask(t, admissionv1.Delete, nil, object)
}

// check compares an answer with what it should be: allowed where there is nothing in want, otherwise a refusal with all
// of the texts.
func check(t *testing.T, answer admission.Response, want ...string) {
	t.Helper()
	if len(want) == 0 {
		if !answer.Allowed {
			t.Errorf("refused: %v", answer.Result)
		}
		return
	}
	if answer.Allowed {
		t.Errorf("allowed, want a refusal with %q", want)
		return
	}
	if answer.Result.Code != 422 && answer.Result.Code != 403 {
		t.Errorf("failed instead of refusing: %v", answer.Result)
	}
	for _, text := range want {
		if !strings.Contains(answer.Result.Message, text) {
			t.Errorf("refused with %q, want %q in it", answer.Result.Message, text)
		}
	}
}

// The world of most tests: an organization, its project with account and network, and another organization.

func named[T client.Object](object T, namespace, name string) T {
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// gone marks an object as being deleted.
func gone[T client.Object](object T) T {
	now := metav1.NewTime(noon)
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{v1alpha1.Finalizer})
	return object
}

const home = "project-shop"

func org(name string, quota *v1alpha1.Quota) *v1alpha1.Organization {
	return named(&v1alpha1.Organization{Spec: v1alpha1.OrganizationSpec{Quota: quota}}, "", name)
}

func proj(name, organization string, quota *v1alpha1.Quota) *v1alpha1.Project {
	return named(&v1alpha1.Project{Spec: v1alpha1.ProjectSpec{Organization: organization, Quota: quota}}, "", name)
}

func acct(name string, provider v1alpha1.Provider) *v1alpha1.Account {
	return named(&v1alpha1.Account{Spec: v1alpha1.AccountSpec{Provider: provider}}, home, name)
}

func vpc(name, account, cidr string) *v1alpha1.Network {
	return named(&v1alpha1.Network{Spec: v1alpha1.NetworkSpec{Account: account, CIDR: cidr}}, home, name)
}

// k8s is a cluster as it reaches admission, with its defaults.
func k8s(name string, change ...func(*v1alpha1.ClusterSpec)) *v1alpha1.Cluster {
	c := named(&v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{
		Type: v1alpha1.ClusterHosted, Network: "default",
		ControlPlane:   v1alpha1.ControlPlane{Replicas: 2, InstanceType: "u1.large"},
		ClusterNetwork: v1alpha1.ClusterNetwork{PodCIDR: "192.168.0.0/16", ServiceCIDR: "10.96.0.0/12"},
	}}, home, name)
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

// workers gives a cluster a group of nodes.
func workers(replicas int32, change ...func(*v1alpha1.NodeGroupTemplate)) func(*v1alpha1.ClusterSpec) {
	return func(spec *v1alpha1.ClusterSpec) {
		group := v1alpha1.NodeGroupTemplate{MaxReplicas: 100, Replicas: &replicas, InstanceType: "u1.medium"}
		for _, f := range change {
			f(&group)
		}
		spec.NodeGroups = map[string]v1alpha1.NodeGroupTemplate{"workers": group}
	}
}

func world() []client.Object {
	return []client.Object{
		org("acme", nil), org("globex", nil), proj("shop", "acme", nil), proj("lab", "globex", nil),
		acct("local", v1alpha1.ProviderLocal), acct("aws", v1alpha1.ProviderAWS),
		vpc("default", "local", "10.0.0.0/16"), vpc("cloud", "aws", "10.0.0.0/16"),
	}
}
