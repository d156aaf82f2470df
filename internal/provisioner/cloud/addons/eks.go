package addons

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
)

// EKS is what the add-ons of a cluster of EKS are made from.
type EKS struct {
	Cluster aws.ClusterOutputs
	Network aws.NetworkOutputs
	Region  string
	Stack   string
	// AMI of nodes that Karpenter makes, as the cluster's spec names it.
	AMI string
}

// system is where controllers are.
const system = metav1.NamespaceSystem

// Set is what a cluster of EKS needs. In Auto Mode AWS runs the controllers itself, and wants to be told of classes only.
func (e EKS) Set() (Set, error) {
	auto := len(e.Cluster.NodeGroups) == 0
	provisioner := "ebs.csi.aws.com"
	if auto {
		provisioner = "ebs.csi.eks.amazonaws.com"
	}
	objects := []runtime.Object{storageClass(provisioner)}
	if auto {
		objects = append(objects, &networkingv1.IngressClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "IngressClass"},
			ObjectMeta: metav1.ObjectMeta{Name: "alb"}, Spec: networkingv1.IngressClassSpec{Controller: "eks.amazonaws.com/alb"},
		})
	}
	var set Set
	for _, object := range objects {
		made, err := apply.Typed(object)
		if err != nil {
			return Set{}, err
		}
		set.Objects = append(set.Objects, made)
	}
	if !auto {
		set.Charts = append(set.Charts, e.loadBalancers())
	}
	if e.Cluster.Karpenter != nil {
		set.Charts = append(set.Charts, e.karpenter())
	}
	return set, nil
}

// storageClass is the one that claims have that name none.
func storageClass(provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass"},
		ObjectMeta:  metav1.ObjectMeta{Name: "gp3", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner, Parameters: map[string]string{"type": "gp3", "encrypted": "true"},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: ptr.To(true),
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
	}
}

// loadBalancers makes load balancers for Services and Ingresses.
func (e EKS) loadBalancers() Chart {
	chart := Chart{Name: "aws-load-balancer-controller", Namespace: system, Values: map[string]any{
		"clusterName": e.Cluster.Name, "region": e.Region, "vpcId": e.Network.ID,
		"serviceAccount": map[string]any{"name": "aws-load-balancer-controller"}, // which the role is for
	}}
	if e.Cluster.LoadBalancerRoleARN == "" {
		chart.Missing = "there is no role for it; it comes with infra version v1.1.0 of the cluster"
	}
	return chart
}

// karpenter makes nodes as pods need them: of the usual kinds, in the cluster's subnets.
func (e EKS) karpenter() Chart {
	alias := "bottlerocket@latest"
	if e.AMI == "AL2023" {
		alias = "al2023@latest"
	}
	subnets := []any{}
	for _, id := range aws.IDs(e.Network.PrivateSubnets) {
		subnets = append(subnets, map[string]any{"id": id})
	}
	class := object("karpenter.k8s.aws/v1", "EC2NodeClass", map[string]any{
		"role": path.Base(e.Cluster.NodeRoleARN), "amiSelectorTerms": []any{map[string]any{"alias": alias}},
		"subnetSelectorTerms": subnets, "securityGroupSelectorTerms": []any{map[string]any{"id": e.Cluster.SecurityGroup}},
		"metadataOptions": map[string]any{"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": int64(1)},
		"tags":            map[string]any{aws.TagStack: e.Stack},
	})
	in := func(key string, values ...any) any {
		return map[string]any{"key": key, "operator": "In", "values": values}
	}
	pool := object("karpenter.sh/v1", "NodePool", map[string]any{
		"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class.GetName()},
			"requirements": []any{
				in(corev1.LabelArchStable, "amd64"), in(corev1.LabelOSStable, "linux"), in("karpenter.sh/capacity-type", "on-demand"),
				in("karpenter.k8s.aws/instance-category", "c", "m", "r"),
				map[string]any{"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": []any{"4"}},
			},
			"expireAfter": "720h",
		}},
		"limits":     map[string]any{"cpu": "1000"},
		"disruption": map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
	})
	return Chart{
		Name: "karpenter", Namespace: system, Objects: []*unstructured.Unstructured{class, pool},
		Values: map[string]any{
			"settings":       map[string]any{"clusterName": e.Cluster.Name, "interruptionQueue": e.Cluster.Karpenter.Queue},
			"serviceAccount": map[string]any{"name": "karpenter"},
		},
	}
}

func object(version, kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "default"}, "spec": spec,
	}}
}
