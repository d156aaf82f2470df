package aws

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// Compute is who makes a cluster's nodes.
type Compute string

// The ways to get nodes.
const (
	ComputeAuto       Compute = "Auto"       // AWS, as pods need them
	ComputeNodeGroups Compute = "NodeGroups" // managed node groups
	ComputeKarpenter  Compute = "Karpenter"  // Karpenter, which itself runs on managed node groups
)

// ClusterOptions are what can be chosen of a cluster in AWS.
type ClusterOptions struct {
	Compute          Compute  // by whether there are node groups, if empty
	AMI              string   // Bottlerocket if empty, or AL2023
	Spot             []string // node groups that run on spare capacity
	ExtendedSupport  bool
	LogRetentionDays int      // 90 if 0
	Admins           []string // principals, by ARN
	PlatformCIDRs    []string // ranges that the platform itself comes from
}

// Taint of a node group.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// NodeGroup is a managed node group.
type NodeGroup struct {
	Min            int               `json:"min"`
	Max            int               `json:"max"`
	Desired        int               `json:"desired"`
	InstanceTypes  []string          `json:"instance_types"`
	CapacityType   string            `json:"capacity_type"`
	AMIType        string            `json:"ami_type"`
	DiskGiB        int               `json:"disk_gib"`
	Labels         map[string]string `json:"labels"`
	Taints         []Taint           `json:"taints"`
	MaxUnavailable int               `json:"max_unavailable"`
}

// ClusterVariables are the variables of the cluster's configuration.
type ClusterVariables struct {
	Common
	Name                  string               `json:"name"`
	KubernetesVersion     string               `json:"kubernetes_version"`
	VPCID                 string               `json:"vpc_id"`
	NodeSubnetIDs         []string             `json:"node_subnet_ids"`
	ControlPlaneSubnetIDs []string             `json:"control_plane_subnet_ids"`
	AutoMode              bool                 `json:"auto_mode"`
	Karpenter             bool                 `json:"karpenter"`
	EndpointPublicAccess  bool                 `json:"endpoint_public_access"`
	PublicAccessCIDRs     []string             `json:"public_access_cidrs"`
	ServiceCIDR           string               `json:"service_cidr"`
	LogRetentionDays      int                  `json:"log_retention_days"`
	DeletionProtection    bool                 `json:"deletion_protection"`
	SupportType           string               `json:"support_type"`
	Admins                []string             `json:"admins"`
	NodeGroups            map[string]NodeGroup `json:"node_groups"`
}

// ami is a kind of image for nodes: for Intel's and ARM's processors, each with NVIDIA's driver or without.
type ami struct{ intel, intelGPU, arm, armGPU string }

// amis by what people call them.
var amis = map[string]ami{
	"Bottlerocket": {"BOTTLEROCKET_x86_64", "BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_ARM_64", "BOTTLEROCKET_ARM_64_NVIDIA"},
	"AL2023":       {"AL2023_x86_64_STANDARD", "AL2023_x86_64_NVIDIA", "AL2023_ARM_64_STANDARD", "AL2023_ARM_64_NVIDIA"},
}

// graviton are the types with ARM's processors: those with a g behind the generation, and the first of them.
var graviton = regexp.MustCompile(`^([a-z]+[0-9]+g[a-z]*|a1)\.`)

// of is the image for a machine.
func (a ami) of(machine string, gpu bool) string {
	switch {
	case graviton.MatchString(machine) && gpu:
		return a.armGPU
	case graviton.MatchString(machine):
		return a.arm
	case gpu:
		return a.intelGPU
	}
	return a.intel
}

// Cluster translates a cluster in a network that is there.
func Cluster(stack Stack, cluster *v1alpha1.Cluster, network *v1alpha1.Network, made *NetworkOutputs, options ClusterOptions) (*ClusterVariables, error) {
	common, errs := stack.common(map[string]string{"plasmacloud.io/cluster": cluster.Name})
	spec := field.NewPath("spec")
	if cluster.Spec.Type != v1alpha1.ClusterEKS {
		errs = append(errs, field.Invalid(spec.Child("type"), cluster.Spec.Type, "an account of AWS has clusters of type EKS"))
	}
	version, problems := translate.Minor(cluster.Spec.Version, spec.Child("version"))
	errs = append(errs, problems...)
	errs = append(errs, translate.ClusterNetwork(cluster.Spec.ClusterNetwork, spec.Child("clusterNetwork"))...)
	service := spec.Child("clusterNetwork", "serviceCIDR")
	errs = append(errs, translate.Within(service, cluster.Spec.ClusterNetwork.ServiceCIDR, 12, 24, "EKS")...)
	errs = append(errs, translate.Overlap(service, cluster.Spec.ClusterNetwork.ServiceCIDR, network.Spec.CIDR, "the network")...)
	public, cidrs := translate.Access(cluster.Spec.Access, options.PlatformCIDRs)
	variables := &ClusterVariables{
		Common: common, Name: translate.Name(stack.Name, cluster.Name), KubernetesVersion: version, VPCID: made.ID,
		NodeSubnetIDs: IDs(made.PrivateSubnets), ControlPlaneSubnetIDs: IDs(made.IntraSubnets),
		EndpointPublicAccess: public, PublicAccessCIDRs: cidrs, ServiceCIDR: cluster.Spec.ClusterNetwork.ServiceCIDR,
		LogRetentionDays: options.LogRetentionDays, DeletionProtection: cluster.Spec.DeletionProtection, SupportType: "STANDARD",
		Admins: slices.Sorted(slices.Values(options.Admins)), NodeGroups: map[string]NodeGroup{},
	}
	if variables.Admins == nil {
		variables.Admins = []string{}
	}
	if variables.LogRetentionDays == 0 {
		variables.LogRetentionDays = 90
	}
	if options.ExtendedSupport {
		variables.SupportType = "EXTENDED"
	}
	if len(zonesOf(made.IntraSubnets)) < 2 {
		variables.ControlPlaneSubnetIDs = variables.NodeSubnetIDs
	}
	if len(zonesOf(made.IntraSubnets)) < 2 && len(zonesOf(made.PrivateSubnets)) < 2 {
		errs = append(errs, field.Invalid(spec.Child("network"), network.Name, "EKS needs private or intra subnets in two zones at least"))
	}
	errs = append(errs, variables.compute(cluster, options, spec)...)
	return variables, errs.ToAggregate()
}

// compute decides who makes the nodes.
func (v *ClusterVariables) compute(cluster *v1alpha1.Cluster, options ClusterOptions, spec *field.Path) field.ErrorList {
	path := spec.Child("nodeGroups")
	groups, errs := translate.Groups(cluster.Spec.NodeGroups, translate.AWS(), path)
	compute := options.Compute
	if compute == "" {
		compute = ComputeAuto
		if len(groups) > 0 {
			compute = ComputeNodeGroups
		}
	}
	switch {
	case compute == ComputeAuto && len(groups) > 0:
		errs = append(errs, field.Forbidden(path, "with Auto Mode AWS makes the nodes; remove the groups, or choose managed node groups"))
	case compute != ComputeAuto && compute != ComputeNodeGroups && compute != ComputeKarpenter:
		errs = append(errs, field.NotSupported(spec.Child("compute"), compute, []Compute{ComputeAuto, ComputeNodeGroups, ComputeKarpenter}))
	case compute != ComputeAuto && len(groups) == 0:
		errs = append(errs, field.Required(path, "the cluster's add-ons, and Karpenter itself, need nodes to run on; add a group, or choose Auto Mode"))
	}
	v.AutoMode, v.Karpenter = compute == ComputeAuto, compute == ComputeKarpenter
	if options.AMI == "" {
		options.AMI = "Bottlerocket"
	}
	if _, known := amis[options.AMI]; !known {
		errs = append(errs, field.NotSupported(spec.Child("ami"), options.AMI, []string{"Bottlerocket", "AL2023"}))
	}
	for _, group := range groups {
		translated, problems := nodeGroup(group, cluster.Spec.NodeGroups[group.Name], options, path.Key(group.Name))
		errs = append(errs, problems...)
		v.NodeGroups[group.Name] = translated
	}
	for _, name := range options.Spot {
		if _, known := v.NodeGroups[name]; !known {
			errs = append(errs, field.NotFound(path, name))
		}
	}
	return errs
}

func nodeGroup(group translate.Group, template v1alpha1.NodeGroupTemplate, options ClusterOptions, path *field.Path) (NodeGroup, field.ErrorList) {
	var errs field.ErrorList
	translated := NodeGroup{
		Min: group.Min, Max: group.Max, Desired: group.Desired, InstanceTypes: []string{group.Machine}, CapacityType: "ON_DEMAND",
		AMIType: amis[options.AMI].of(group.Machine, len(template.GPUs) > 0), DiskGiB: group.DiskGiB, Labels: group.Labels, Taints: []Taint{}, MaxUnavailable: 1,
	}
	if slices.Contains(options.Spot, group.Name) {
		translated.CapacityType = "SPOT"
	}
	for i, taint := range group.Taints {
		effect := map[corev1.TaintEffect]string{
			corev1.TaintEffectNoSchedule: "NO_SCHEDULE", corev1.TaintEffectNoExecute: "NO_EXECUTE", corev1.TaintEffectPreferNoSchedule: "PREFER_NO_SCHEDULE",
		}[taint.Effect]
		if effect == "" {
			errs = append(errs, field.NotSupported(path.Child("taints").Index(i).Child("effect"), taint.Effect, []string{"NoSchedule", "NoExecute", "PreferNoSchedule"}))
		}
		translated.Taints = append(translated.Taints, Taint{Key: taint.Key, Value: taint.Value, Effect: effect})
	}
	if group.DiskGiB < 20 {
		errs = append(errs, field.Invalid(path.Child("ephemeralStorage"), fmt.Sprintf("%dGi", group.DiskGiB), "a node in AWS needs 20Gi at least"))
	}
	return translated, errs
}

// IDs of subnets, in the order of their names.
func IDs(subnets map[string]Placed) []string {
	all := make([]string, 0, len(subnets))
	for _, name := range slices.Sorted(maps.Keys(subnets)) {
		all = append(all, subnets[name].ID)
	}
	return all
}

func zonesOf(subnets map[string]Placed) map[string]bool {
	zones := map[string]bool{}
	for _, subnet := range subnets {
		zones[subnet.Zone] = true
	}
	return zones
}

// KarpenterOutputs are what Karpenter is configured with.
type KarpenterOutputs struct {
	Queue   string `json:"queue"`
	RoleARN string `json:"role_arn"`
}

// NodeGroupOutputs are how a node group fares.
type NodeGroupOutputs struct {
	Desired int    `json:"desired"`
	Status  string `json:"status"`
}

// ClusterOutputs are what the cluster's configuration puts out.
type ClusterOutputs struct {
	Name                 string                      `json:"name"`
	ARN                  string                      `json:"arn"`
	Endpoint             string                      `json:"endpoint"`
	CertificateAuthority string                      `json:"certificate_authority"`
	Version              string                      `json:"version"`
	OIDCIssuer           string                      `json:"oidc_issuer"`
	OIDCProviderARN      string                      `json:"oidc_provider_arn"`
	NodeRoleARN          string                      `json:"node_role_arn"`
	SecurityGroup        string                      `json:"cluster_security_group"`
	Karpenter            *KarpenterOutputs           `json:"karpenter"`
	LoadBalancerRoleARN  string                      `json:"load_balancer_role_arn"` // from infra version v1.1.0
	NodeGroups           map[string]NodeGroupOutputs `json:"node_groups"`
}

// Apply writes them down in the cluster's status.
func (o *ClusterOutputs) Apply(status *v1alpha1.ClusterStatus) {
	status.Endpoint = o.Endpoint
	if o.Version != "" {
		status.Version = "v" + o.Version
	}
	desired := 0
	for _, group := range o.NodeGroups {
		desired += group.Desired
	}
	status.Nodes.Desired = int32(desired)
}

// CA is the certificate that the API's is signed with, as PEM.
func (o *ClusterOutputs) CA() ([]byte, error) {
	pem, err := base64.StdEncoding.DecodeString(o.CertificateAuthority)
	if err != nil || len(pem) == 0 {
		return nil, fmt.Errorf("read certificate authority of %s: it is not base64", o.Name)
	}
	return pem, nil
}
