package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
)

// gpuMemory is what a node with GPUs has at least: NVIDIA's driver needs it.
const gpuMemory = "4Gi"

func cluster(ctx context.Context, q *question, object, old *v1alpha1.Cluster) error {
	if q.deletes() {
		return q.deleteCluster(ctx, object)
	}
	if err := q.consult(); err != nil {
		return err
	}
	var wrong field.ErrorList
	if q.creates() {
		_, homeless, err := q.home(ctx, object)
		if err != nil || homeless != nil {
			return orInvalid(err, "Cluster", object, homeless)
		}
		if wrong, err = q.surroundings(ctx, object); err != nil {
			return err
		}
		wrong = append(wrong, q.clear(object)...)
	}
	wrong = append(wrong, q.offered(object, old)...)
	wrong = append(wrong, q.groups(object, old)...)
	if err := invalid("Cluster", object, wrong); err != nil {
		return err
	}
	return q.clusterQuota(ctx, object, old)
}

func (q *question) deleteCluster(ctx context.Context, object *v1alpha1.Cluster) error {
	if object.Spec.DeletionProtection && object.DeletionTimestamp.IsZero() {
		return forbidden("clusters", object, "it is protected from deletion; set spec.deletionProtection to false first")
	}
	if object.Spec.Type.InCloud() { // its buckets are reached through it, and in some clouds lie in its group
		err := q.childless(ctx, "clusters", object, object.Namespace, children{"buckets", &v1alpha1.BucketList{}, func(child client.Object) bool {
			bucket, ok := child.(*v1alpha1.Bucket)
			return ok && bucket.Spec.Cluster == object.Name
		}})
		if err != nil {
			return err
		}
	}
	return q.forget(ctx, object)
}

// surroundings are the network that a new cluster is in and the account below it.
func (q *question) surroundings(ctx context.Context, object *v1alpha1.Cluster) (field.ErrorList, error) {
	at := field.NewPath("spec", "network")
	network := &v1alpha1.Network{}
	missing, err := q.parent(ctx, at, object.Namespace, object.Spec.Network, network,
		fmt.Sprintf("create it with `cloud vpc create %s`, or name another one", object.Spec.Network))
	if err != nil || missing != nil {
		return add(nil, missing), err
	}
	wrong := apart(object, network)
	account := &v1alpha1.Account{}
	found, err := q.find(ctx, object.Namespace, network.Spec.Account, account)
	switch {
	case err != nil:
		return nil, err
	case !found:
		wrong = append(wrong, field.Invalid(at, network.Name, fmt.Sprintf("its account %s does not exist; create it with `cloud account create %s`", network.Spec.Account, network.Spec.Account)))
	case !fits(object.Spec.Type, account.Spec.Provider):
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "type"), object.Spec.Type,
			fmt.Sprintf("clusters of this type are not made from an account of provider %s, which network %s belongs to; use a network of an account of provider %s",
				account.Spec.Provider, network.Name, orList(providers(object.Spec.Type)))))
	}
	return wrong, nil
}

// clear checks that the own addresses of a cluster that the platform runs are none of those that its nodes live among.
func (q *question) clear(object *v1alpha1.Cluster) field.ErrorList {
	switch object.Spec.Type {
	case v1alpha1.ClusterHosted, v1alpha1.ClusterKubeadm, v1alpha1.ClusterK3s:
	default:
		return nil
	}
	var wrong field.ErrorList
	at := field.NewPath("spec", "clusterNetwork")
	for _, own := range []struct{ field, cidr, free string }{
		{"podCIDR", object.Spec.ClusterNetwork.PodCIDR, q.catalogue.PodRange()},
		{"serviceCIDR", object.Spec.ClusterNetwork.ServiceCIDR, q.catalogue.ServiceRange()},
	} {
		if reserved := q.catalogue.Overlap(own.cidr); reserved != "" {
			wrong = append(wrong, field.Invalid(at.Child(own.field), own.cidr,
				fmt.Sprintf("it overlaps with %s, which the platform itself uses; choose another range, such as %s", reserved, own.free)))
		}
	}
	return wrong
}

// apart checks that the cluster's own addresses are none of its network's.
func apart(object *v1alpha1.Cluster, network *v1alpha1.Network) field.ErrorList {
	outer, err := netip.ParsePrefix(network.Spec.CIDR)
	if err != nil {
		return nil // the schema's to tell
	}
	var wrong field.ErrorList
	at := field.NewPath("spec", "clusterNetwork")
	for _, own := range []struct{ field, cidr string }{
		{"podCIDR", object.Spec.ClusterNetwork.PodCIDR}, {"serviceCIDR", object.Spec.ClusterNetwork.ServiceCIDR},
	} {
		if inner, err := netip.ParsePrefix(own.cidr); err == nil && inner.Overlaps(outer) {
			wrong = append(wrong, field.Invalid(at.Child(own.field), own.cidr,
				fmt.Sprintf("it overlaps with %s of network %s; choose a range apart from it", network.Spec.CIDR, network.Name)))
		}
	}
	return wrong
}

// providers are those whose accounts clusters of a type are made from; none means any.
func providers(clusterType v1alpha1.ClusterType) []v1alpha1.Provider {
	switch clusterType {
	case v1alpha1.ClusterEKS:
		return []v1alpha1.Provider{v1alpha1.ProviderAWS}
	case v1alpha1.ClusterGKE:
		return []v1alpha1.Provider{v1alpha1.ProviderGCP}
	case v1alpha1.ClusterAKS:
		return []v1alpha1.Provider{v1alpha1.ProviderAzure}
	case v1alpha1.ClusterFake:
		return nil
	case v1alpha1.ClusterHosted: // its machines boot as nodes
		return []v1alpha1.Provider{v1alpha1.ProviderLocal, v1alpha1.ProviderKubeVirt}
	default:
		return []v1alpha1.Provider{v1alpha1.ProviderLocal, v1alpha1.ProviderSSH, v1alpha1.ProviderKubeVirt}
	}
}

func fits(clusterType v1alpha1.ClusterType, provider v1alpha1.Provider) bool {
	allowed := providers(clusterType)
	return len(allowed) == 0 || slices.Contains(allowed, provider)
}

func orList(providers []v1alpha1.Provider) string {
	names := make([]string, 0, len(providers))
	for _, provider := range providers {
		names = append(names, string(provider))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// offered checks type, version and the control plane's instance type against the catalogue. What was there before is no
// reason to refuse another change, even where the catalogue has lost it since.
func (q *question) offered(object, old *v1alpha1.Cluster) field.ErrorList {
	var wrong field.ErrorList
	at, spec := field.NewPath("spec"), &object.Spec
	if old == nil && !q.catalogue.Can(spec.Type, catalogue.CanCreate) {
		var types []string
		for _, offered := range q.catalogue.ClusterTypes {
			if q.catalogue.Can(offered.Name, catalogue.CanCreate) {
				types = append(types, string(offered.Name))
			}
		}
		wrong = append(wrong, field.NotSupported(at.Child("type"), spec.Type, types))
	}
	if spec.Type.InCloud() { // versions and instance types are the cloud's
		return wrong
	}
	if old == nil || old.Spec.Version != spec.Version {
		if _, err := q.catalogue.ResolveVersion(spec.Version); err != nil {
			wrong = append(wrong, field.Invalid(at.Child("version"), spec.Version, err.Error()))
		}
	}
	size := spec.ControlPlane.InstanceType
	if old == nil || old.Spec.ControlPlane.InstanceType != size {
		if _, err := q.catalogue.InstanceType(size); err != nil {
			wrong = append(wrong, field.Invalid(at.Child("controlPlane", "instanceType"), size, err.Error()))
		}
	}
	return wrong
}

// groups checks the node groups that are new or have changed.
func (q *question) groups(object, old *v1alpha1.Cluster) field.ErrorList {
	var wrong field.ErrorList
	for name, group := range object.Spec.NodeGroups {
		if old != nil {
			if before, ok := old.Spec.NodeGroups[name]; ok && equality.Semantic.DeepEqual(before, group) {
				continue
			}
		}
		at := field.NewPath("spec", "nodeGroups").Key(name)
		wrong = append(wrong, q.size(at, object.Spec.Type, group)...)
		wrong = append(wrong, metav1validation.ValidateLabels(group.Labels, at.Child("labels"))...)
		wrong = append(wrong, taints(at.Child("taints"), group.Taints)...)
	}
	slices.SortFunc(wrong, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return wrong
}

func (q *question) size(at *field.Path, clusterType v1alpha1.ClusterType, group v1alpha1.NodeGroupTemplate) field.ErrorList {
	var wrong field.ErrorList
	if _, err := q.catalogue.InstanceType(group.InstanceType); err != nil && !clusterType.InCloud() {
		return append(wrong, field.Invalid(at.Child("instanceType"), group.InstanceType, err.Error()))
	}
	size, err := q.catalogue.NodeSize(group)
	if err != nil {
		return nil // a cloud's instance type, of a size that is the cloud's to know
	}
	if size.CPU.Sign() <= 0 {
		wrong = append(wrong, field.Invalid(at.Child("resources", "cpu"), size.CPU.String(), "it has to be more than nothing, such as 2 or 500m"))
	}
	if size.Memory.Sign() <= 0 {
		wrong = append(wrong, field.Invalid(at.Child("resources", "memory"), size.Memory.String(), "it has to be more than nothing, such as 4Gi"))
	}
	if len(group.GPUs) > 0 && size.Memory.Cmp(resource.MustParse(gpuMemory)) < 0 {
		wrong = append(wrong, field.Invalid(at.Child("gpus"), len(group.GPUs),
			fmt.Sprintf("nodes with GPUs need at least %s of memory, and these have %s; choose a larger instanceType, or set resources.memory", gpuMemory, size.Memory.String())))
	}
	return wrong
}

// taints checks what a kubelet would refuse when it registers the node, long after the request.
func taints(at *field.Path, list []corev1.Taint) field.ErrorList {
	effects := sets.New(corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	var wrong field.ErrorList
	for i, taint := range list {
		at := at.Index(i)
		wrong = append(wrong, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		for _, problem := range validation.IsValidLabelValue(taint.Value) {
			wrong = append(wrong, field.Invalid(at.Child("value"), taint.Value, problem))
		}
		if !effects.Has(taint.Effect) {
			wrong = append(wrong, field.NotSupported(at.Child("effect"), taint.Effect, sets.List(effects)))
		}
	}
	return wrong
}
