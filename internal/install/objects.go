package install

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api"
	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/release"
)

// defaultName is that of the organization, project and network that everybody begins with.
const defaultName = "default"

// platformUser is who the daemon is to the API server.
const platformUser = "system:serviceaccount:" + Namespace + ":cloudd"

// applyCRDs installs the kinds and waits until the API serves them.
func (in *installation) applyCRDs(ctx context.Context, _ platform.UpOptions) error {
	kinds, err := api.CRDs()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		kind.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := in.applyTyped(ctx, kind); err != nil {
			return err
		}
	}
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		for _, kind := range kinds {
			have, err := in.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, kind.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if !established(have) {
				return false, nil
			}
		}
		return true, nil
	})
}

func established(kind *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(kind.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// applyRoles makes the platform's own namespace, and says what the daemon, administrators and tenants may do.
func (in *installation) applyRoles(ctx context.Context, _ platform.UpOptions) error {
	access, err := apply.Render(manifests, "manifests/access.yaml", nil)
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, in.dynamic, manager, access...); err != nil {
		return err
	}
	for _, object := range rbac.Management.ForCluster() {
		content, err := apply.Typed(object)
		if err != nil {
			return err
		}
		if err := apply.Objects(ctx, in.dynamic, manager, content); err != nil {
			return err
		}
	}
	return nil
}

// applyCatalogue publishes what the installation offers.
func (in *installation) applyCatalogue(ctx context.Context) error {
	offered, err := catalogue.New(in.release.Versions(), in.clusterTypes())
	if err != nil {
		return err
	}
	if offered.Images, err = in.images(); err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := in.client.List(ctx, nodes); err != nil {
		return fmt.Errorf("count the management cluster's nodes: %w", err)
	}
	if offered.Reserved, err = in.reserved(ctx, nodes.Items); err != nil {
		return err
	}
	if len(nodes.Items) == 1 {
		offered.ControlPlaneReplicas = 1 // a second one on the same node would fall with the first
	}
	content, err := offered.Render()
	if err != nil {
		return err
	}
	return in.applyTyped(ctx, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: catalogue.ConfigMapName, Namespace: Namespace},
		Data:       map[string]string{catalogue.ConfigMapKey: string(content)},
	})
}

// reserved are the addresses of the management cluster's pods, services and nodes.
func (in *installation) reserved(ctx context.Context, nodes []corev1.Node) ([]string, error) {
	services, err := in.kube.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the management cluster's ranges of services: %w", err)
	}
	var ranges []string
	for _, each := range services.Items {
		ranges = append(ranges, each.Spec.CIDRs...)
	}
	for _, node := range nodes {
		ranges = append(ranges, node.Spec.PodCIDRs...)
		for _, address := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(address.Address); err == nil {
				ranges = append(ranges, netip.PrefixFrom(parsed, parsed.BitLen()).String())
			}
		}
	}
	slices.Sort(ranges)
	return slices.Compact(ranges), nil
}

// clusterTypes are those whose engine this version has.
func (in *installation) clusterTypes() []catalogue.ClusterType {
	lifecycle := []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale, catalogue.CanUpgrade, catalogue.CanRepair,
	}
	onMachines := []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale, catalogue.CanRepair, catalogue.CanKubeconfig,
	}
	types := []catalogue.ClusterType{
		{Name: v1alpha1.ClusterHosted, Capabilities: append(slices.Clone(lifecycle), catalogue.CanKubeconfig)},
		{Name: v1alpha1.ClusterKubeadm, Capabilities: onMachines},
		{Name: v1alpha1.ClusterK3s, Capabilities: onMachines},
		{Name: v1alpha1.ClusterFake, Capabilities: lifecycle},
	}
	// Deployers need the release, as clusters on machines do; and the part of it for clouds.
	built, err := release.OpenCloud(in.release.Dir())
	if err != nil || !in.embedded() {
		return types
	}
	for _, cloud := range []struct {
		provider string
		name     v1alpha1.ClusterType
	}{{"aws", v1alpha1.ClusterEKS}, {"google", v1alpha1.ClusterGKE}, {"azurerm", v1alpha1.ClusterAKS}} {
		if built.Has(cloud.provider) {
			types = append(types, catalogue.ClusterType{Name: cloud.name, Capabilities: append(slices.Clone(lifecycle), catalogue.CanKubeconfig)})
		}
	}
	return types
}

// applyAdmission makes the API server ask the daemon, whose certificate the platform's own authority has signed.
func (in *installation) applyAdmission(ctx context.Context, _ platform.UpOptions) error {
	ca, err := in.ca(ctx)
	if err != nil {
		return err
	}
	return in.applyTyped(ctx, admission.Configuration(admission.Service(Namespace, "admission", 443, ca), platformUser))
}

// applyDefaults makes what everybody begins with, where it is not there; what people made of it stays.
func (in *installation) applyDefaults(ctx context.Context, _ platform.UpOptions) error {
	namespace := v1alpha1.NamespacePrefix + defaultName
	organization := &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: defaultName}, Spec: v1alpha1.OrganizationSpec{DisplayName: "Default"}}
	project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: defaultName}, Spec: v1alpha1.ProjectSpec{Organization: defaultName, DisplayName: "Default"}}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "local", Namespace: namespace}, Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}}
	network := &v1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: defaultName, Namespace: namespace}}
	for _, object := range []client.Object{organization, project, account, network} {
		if err := in.create(ctx, object); err != nil {
			return fmt.Errorf("make %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// create makes an object, unless it is there.
func (in *installation) create(ctx context.Context, object client.Object) error {
	return in.until(ctx, func(ctx context.Context) (bool, error) {
		err := in.client.Create(ctx, object)
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		return false, err // the namespace, or the webhook's way to the daemon, may take a moment
	})
}

func (in *installation) applyTyped(ctx context.Context, object client.Object) error {
	content, err := apply.Typed(object)
	if err != nil {
		return err
	}
	return apply.Objects(ctx, in.dynamic, manager, content)
}

// until asks again and again; an error counts as not yet, and is what is told when ctx ends.
func (in *installation) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		last = err
		return ok, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
