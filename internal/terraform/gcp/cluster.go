package gcp

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// ClusterOptions are what can be chosen of a cluster in Google Cloud.
type ClusterOptions struct {
	Autopilot      *bool    // Google makes the nodes; by whether there are node groups, if nil
	ReleaseChannel string   // REGULAR if empty
	Spot           []string // node groups that run on spare capacity
	Autoscale      bool     // between the groups' bounds; otherwise they have the number of nodes that is asked for
	EncryptionKey  string   // of Cloud KMS, for secrets
	PlatformCIDRs  []string // ranges that the platform itself comes from
}

// Taint of a node pool.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// NodePool is a node group.
type NodePool struct {
	Min            int               `json:"min"`
	Max            int               `json:"max"`
	Initial        int               `json:"initial"`
	MachineType    string            `json:"machine_type"`
	DiskGiB        int               `json:"disk_gib"`
	Spot           bool              `json:"spot"`
	Labels         map[string]string `json:"labels"`
	Taints         []Taint           `json:"taints"`
	MaxSurge       int               `json:"max_surge"`
	MaxUnavailable int               `json:"max_unavailable"`
}

// ClusterVariables are the variables of the cluster's configuration.
type ClusterVariables struct {
	Common
	Name                  string              `json:"name"`
	KubernetesVersion     string              `json:"kubernetes_version"`
	Network               string              `json:"network"`
	Subnetwork            string              `json:"subnetwork"`
	Autopilot             bool                `json:"autopilot"`
	ReleaseChannel        string              `json:"release_channel"`
	PublicEndpoint        bool                `json:"public_endpoint"`
	AuthorizedCIDRs       []string            `json:"authorized_cidrs"`
	DeletionProtection    bool                `json:"deletion_protection"`
	DatabaseEncryptionKey string              `json:"database_encryption_key"`
	NodePools             map[string]NodePool `json:"node_pools"`
}

// Cluster translates a cluster in a network that is there.
func Cluster(stack Stack, cluster *v1alpha1.Cluster, made *NetworkOutputs, options ClusterOptions) (*ClusterVariables, error) {
	common, errs := stack.common("cluster", cluster.Name)
	spec := field.NewPath("spec")
	if cluster.Spec.Type != v1alpha1.ClusterGKE {
		errs = append(errs, field.Invalid(spec.Child("type"), cluster.Spec.Type, "an account of Google Cloud has clusters of type GKE"))
	}
	version, problems := translate.Minor(cluster.Spec.Version, spec.Child("version"))
	errs = append(errs, problems...)
	errs = append(errs, translate.ClusterNetwork(cluster.Spec.ClusterNetwork, spec.Child("clusterNetwork"))...)
	public, cidrs := translate.Access(cluster.Spec.Access, options.PlatformCIDRs)
	variables := &ClusterVariables{
		Common: common, Name: translate.Name(stack.Name, cluster.Name), KubernetesVersion: version, Network: made.ID,
		ReleaseChannel: options.ReleaseChannel, PublicEndpoint: public, AuthorizedCIDRs: cidrs,
		DeletionProtection: cluster.Spec.DeletionProtection, DatabaseEncryptionKey: options.EncryptionKey, NodePools: map[string]NodePool{},
	}
	if variables.ReleaseChannel == "" {
		variables.ReleaseChannel = "REGULAR"
	}
	if !slices.Contains([]string{"RAPID", "REGULAR", "STABLE", "EXTENDED"}, variables.ReleaseChannel) {
		errs = append(errs, field.NotSupported(spec.Child("releaseChannel"), options.ReleaseChannel, []string{"RAPID", "REGULAR", "STABLE", "EXTENDED"}))
	}
	if names := slices.Sorted(maps.Keys(made.Subnets)); len(names) > 0 {
		variables.Subnetwork = made.Subnets[names[0]].ID
	} else {
		errs = append(errs, field.Invalid(spec.Child("network"), cluster.Spec.Network, "it has no subnet yet"))
	}
	errs = append(errs, variables.pools(cluster, options, spec.Child("nodeGroups"))...)
	return variables, errs.ToAggregate()
}

// pools decides who makes the nodes.
func (v *ClusterVariables) pools(cluster *v1alpha1.Cluster, options ClusterOptions, path *field.Path) field.ErrorList {
	groups, errs := translate.Groups(cluster.Spec.NodeGroups, translate.GCP(), path)
	v.Autopilot = len(groups) == 0
	if options.Autopilot != nil {
		v.Autopilot = *options.Autopilot
	}
	switch {
	case v.Autopilot && len(groups) > 0:
		errs = append(errs, field.Forbidden(path, "with Autopilot Google makes the nodes; remove the groups, or choose a standard cluster"))
	case !v.Autopilot && len(groups) == 0:
		errs = append(errs, field.Required(path, "a standard cluster needs nodes to run on; add a group, or choose Autopilot"))
	}
	for _, group := range groups {
		if !options.Autoscale { // the one way to have an exact number in a region's zones is to leave no room
			group.Min, group.Max = group.Desired, group.Desired
		}
		pool, problems := nodePool(group, path.Key(group.Name))
		pool.Spot = slices.Contains(options.Spot, group.Name)
		v.NodePools[group.Name], errs = pool, append(errs, problems...)
	}
	for _, name := range options.Spot {
		if _, known := v.NodePools[name]; !known {
			errs = append(errs, field.NotFound(path, name))
		}
	}
	return errs
}

// zones is how many a region's cluster has nodes in; a pool's first nodes are counted for each of them.
const zones = 3

func nodePool(group translate.Group, path *field.Path) (NodePool, field.ErrorList) {
	var errs field.ErrorList
	pool := NodePool{
		Min: group.Min, Max: group.Max, Initial: (group.Desired + zones - 1) / zones, MachineType: group.Machine, DiskGiB: group.DiskGiB, Labels: group.Labels, Taints: []Taint{},
	}
	for i, taint := range group.Taints {
		effect := map[corev1.TaintEffect]string{
			corev1.TaintEffectNoSchedule: "NO_SCHEDULE", corev1.TaintEffectNoExecute: "NO_EXECUTE", corev1.TaintEffectPreferNoSchedule: "PREFER_NO_SCHEDULE",
		}[taint.Effect]
		if effect == "" {
			errs = append(errs, field.NotSupported(path.Child("taints").Index(i).Child("effect"), taint.Effect, []string{"NoSchedule", "NoExecute", "PreferNoSchedule"}))
		}
		pool.Taints = append(pool.Taints, Taint{Key: taint.Key, Value: taint.Value, Effect: effect})
	}
	for name, one := range map[string]struct {
		text string
		into *int
	}{"maxSurge": {group.MaxSurge, &pool.MaxSurge}, "maxUnavailable": {group.MaxUnavailable, &pool.MaxUnavailable}} {
		if _, err := fmt.Sscanf(one.text, "%d", one.into); err != nil || strings.HasSuffix(one.text, "%") {
			errs = append(errs, field.Invalid(path.Child("rollingUpdate", name), one.text, "GKE takes a number, no percentage"))
		}
	}
	if group.DiskGiB < 10 {
		errs = append(errs, field.Invalid(path.Child("ephemeralStorage"), fmt.Sprintf("%dGi", group.DiskGiB), "a node in Google Cloud needs 10Gi at least"))
	}
	return pool, errs
}

// ClusterOutputs are what the cluster's configuration puts out.
type ClusterOutputs struct {
	Name                 string `json:"name"`
	Endpoint             string `json:"endpoint"`
	DNSEndpoint          string `json:"dns_endpoint"`
	CertificateAuthority string `json:"certificate_authority"`
	Version              string `json:"version"`
	WorkloadPool         string `json:"workload_pool"`
	NodeServiceAccount   string `json:"node_service_account"`
	NodePools            map[string]struct {
		Min     int    `json:"min"`
		Version string `json:"version"`
	} `json:"node_pools"`
}

var version = regexp.MustCompile(`^(\d+\.\d+\.\d+)`)

// Apply writes them down in the cluster's status.
func (o *ClusterOutputs) Apply(status *v1alpha1.ClusterStatus) {
	status.Endpoint = o.Endpoint
	if o.DNSEndpoint != "" {
		status.Endpoint = o.DNSEndpoint
	}
	if match := version.FindStringSubmatch(o.Version); match != nil { // 1.35.2-gke.1234000
		status.Version = "v" + match[1]
	}
	desired := 0
	for _, pool := range o.NodePools {
		desired += pool.Min
	}
	status.Nodes.Desired = int32(desired)
}

// CA is the certificate that the API's is signed with, as PEM. The DNS endpoint's is a public one.
func (o *ClusterOutputs) CA() ([]byte, error) {
	pem, err := base64.StdEncoding.DecodeString(o.CertificateAuthority)
	if err != nil || len(pem) == 0 {
		return nil, fmt.Errorf("read certificate authority of %s: it is not base64", o.Name)
	}
	return pem, nil
}
