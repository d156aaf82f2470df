package azure

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// ClusterOptions are what can be chosen of a cluster in Azure.
type ClusterOptions struct {
	AutoProvisioning bool     // Azure makes nodes as pods need them, besides the system pool
	FreeTier         bool     // without a promise of availability
	SystemPool       string   // the node group that runs the cluster's own pods; the first by name if empty
	Spot             []string // node groups that run on spare capacity
	Zones            []string // 1, 2 and 3 if empty
	Autoscale        bool     // between the groups' bounds; otherwise they have the number of nodes that is asked for
	AdminGroups      []string // of the directory, by object ID
	PlatformCIDRs    []string // ranges that the platform itself comes from
}

// SystemPool is the pool that the cluster's own pods run in.
type SystemPool struct {
	Count   *int              `json:"count"` // not scaled by Azure
	Min     int               `json:"min"`
	Max     int               `json:"max"`
	VMSize  string            `json:"vm_size"`
	DiskGiB int               `json:"disk_gib"`
	Zones   []string          `json:"zones"`
	Labels  map[string]string `json:"labels"`
}

// NodePool is a further node group.
type NodePool struct {
	Count    *int              `json:"count"` // not scaled by Azure
	Min      int               `json:"min"`
	Max      int               `json:"max"`
	VMSize   string            `json:"vm_size"`
	DiskGiB  int               `json:"disk_gib"`
	Spot     bool              `json:"spot"`
	Zones    []string          `json:"zones"`
	Labels   map[string]string `json:"labels"`
	Taints   []string          `json:"taints"`
	MaxSurge string            `json:"max_surge"`
}

// ClusterVariables are the variables of the cluster's configuration.
type ClusterVariables struct {
	Common
	Name              string              `json:"name"`
	KubernetesVersion string              `json:"kubernetes_version"`
	SubnetID          string              `json:"subnet_id"`
	PodCIDR           string              `json:"pod_cidr"`
	ServiceCIDR       string              `json:"service_cidr"`
	DNSServiceIP      string              `json:"dns_service_ip"`
	NAT               bool                `json:"nat"`
	PublicEndpoint    bool                `json:"public_endpoint"`
	AuthorizedCIDRs   []string            `json:"authorized_cidrs"`
	AdminGroupIDs     []string            `json:"admin_group_ids"`
	TenantID          string              `json:"tenant_id"`
	NodeProvisioning  string              `json:"node_provisioning"`
	SKUTier           string              `json:"sku_tier"`
	SystemPool        SystemPool          `json:"system_pool"`
	NodePools         map[string]NodePool `json:"node_pools"`
}

// Cluster translates a cluster in a network that is there.
func Cluster(stack Stack, cluster *v1alpha1.Cluster, network *v1alpha1.Network, made *NetworkOutputs, options ClusterOptions) (*ClusterVariables, error) {
	common, errs := stack.common("cluster", cluster.Name)
	spec := field.NewPath("spec")
	if cluster.Spec.Type != v1alpha1.ClusterAKS {
		errs = append(errs, field.Invalid(spec.Child("type"), cluster.Spec.Type, "an account of Azure has clusters of type AKS"))
	}
	version, problems := translate.Minor(cluster.Spec.Version, spec.Child("version"))
	errs = append(errs, problems...)
	own := cluster.Spec.ClusterNetwork
	path := spec.Child("clusterNetwork")
	errs = append(errs, translate.ClusterNetwork(own, path)...)
	errs = append(errs, translate.Within(path.Child("podCIDR"), own.PodCIDR, 8, 22, "AKS")...)
	errs = append(errs, translate.Within(path.Child("serviceCIDR"), own.ServiceCIDR, 12, 28, "AKS")...)
	errs = append(errs, translate.Overlap(path.Child("podCIDR"), own.PodCIDR, network.Spec.CIDR, "the network")...)
	errs = append(errs, translate.Overlap(path.Child("serviceCIDR"), own.ServiceCIDR, network.Spec.CIDR, "the network")...)
	public, cidrs := translate.Access(cluster.Spec.Access, options.PlatformCIDRs)
	variables := &ClusterVariables{
		Common: common, Name: translate.Name(stack.Name, cluster.Name), KubernetesVersion: version, PodCIDR: own.PodCIDR, ServiceCIDR: own.ServiceCIDR,
		NAT: len(made.NATAddresses) > 0, PublicEndpoint: public, AuthorizedCIDRs: cidrs, AdminGroupIDs: slices.Sorted(slices.Values(options.AdminGroups)),
		NodeProvisioning: "Manual", SKUTier: "Standard", NodePools: map[string]NodePool{},
	}
	if variables.AdminGroupIDs == nil {
		variables.AdminGroupIDs = []string{}
	}
	if stack.Account.Spec.Azure != nil {
		variables.TenantID = stack.Account.Spec.Azure.TenantID
	}
	if address, err := translate.Address(own.ServiceCIDR, 10); err == nil { // as everywhere; a range that is none was found above
		variables.DNSServiceIP = address
	}
	if options.AutoProvisioning {
		variables.NodeProvisioning = "Auto"
	}
	if options.FreeTier {
		variables.SKUTier = "Free"
	}
	if cluster.Spec.DeletionProtection {
		errs = append(errs, field.Forbidden(spec.Child("deletionProtection"), "AKS has none of its own; use a lock on the resource group"))
	}
	for _, name := range slices.Sorted(maps.Keys(made.Subnets)) {
		if subnet := made.Subnets[name]; subnet.Role == v1alpha1.SubnetPrivate && variables.SubnetID == "" {
			variables.SubnetID = subnet.ID
		}
	}
	if variables.SubnetID == "" {
		errs = append(errs, field.Invalid(spec.Child("network"), network.Name, "it has no private subnet yet"))
	}
	errs = append(errs, variables.pools(cluster, options, spec.Child("nodeGroups"))...)
	return variables, errs.ToAggregate()
}

var poolName = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// pools divides the node groups into the system's pool and the others.
func (v *ClusterVariables) pools(cluster *v1alpha1.Cluster, options ClusterOptions, path *field.Path) field.ErrorList {
	groups, errs := translate.Groups(cluster.Spec.NodeGroups, translate.Azure(), path)
	if len(groups) == 0 {
		return append(errs, field.Required(path, "AKS runs the cluster's own pods on nodes of a group; add one"))
	}
	zones := options.Zones
	if len(zones) == 0 {
		zones = []string{"1", "2", "3"}
	}
	system := options.SystemPool
	if system == "" {
		system = groups[0].Name
	}
	if options.AutoProvisioning && len(groups) > 1 {
		errs = append(errs, field.Forbidden(path, "with automatic provisioning Azure makes the nodes; keep one group for the cluster's own pods"))
	}
	found := false
	for _, group := range groups {
		key := path.Key(group.Name)
		var count *int
		if !options.Autoscale {
			count = &group.Desired
		}
		if group.Name == system {
			found = true
			group.Min, group.Desired = max(group.Min, 1), max(group.Desired, 1)
			v.SystemPool = SystemPool{Count: count, Min: group.Min, Max: max(group.Min, group.Max), VMSize: group.Machine, DiskGiB: max(group.DiskGiB, 30), Zones: zones, Labels: group.Labels}
			if len(group.Taints) > 0 || slices.Contains(options.Spot, group.Name) {
				errs = append(errs, field.Forbidden(key, "the group that runs the cluster's own pods has neither taints nor spare capacity; name another system pool"))
			}
			continue
		}
		if !poolName.MatchString(group.Name) {
			errs = append(errs, field.Invalid(key, group.Name, "AKS takes names of 1 to 12 lower-case letters and digits"))
		}
		pool := NodePool{
			Count: count, Min: group.Min, Max: group.Max, VMSize: group.Machine, DiskGiB: max(group.DiskGiB, 30), Spot: slices.Contains(options.Spot, group.Name),
			Zones: zones, Labels: group.Labels, Taints: []string{}, MaxSurge: group.MaxSurge,
		}
		for _, taint := range group.Taints {
			pool.Taints = append(pool.Taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
		}
		if pool.Spot {
			pool.Taints = append(pool.Taints, "kubernetes.azure.com/scalesetpriority=spot:NoSchedule") // AKS sets it anyway
			pool.Labels["kubernetes.azure.com/scalesetpriority"] = "spot"
		}
		v.NodePools[group.Name] = pool
	}
	if !found {
		errs = append(errs, field.NotFound(path, system))
	}
	return errs
}

// ClusterOutputs are what the cluster's configuration puts out.
type ClusterOutputs struct {
	Name                 string `json:"name"`
	ID                   string `json:"id"`
	ResourceGroup        string `json:"resource_group"`
	Endpoint             string `json:"endpoint"`
	CertificateAuthority string `json:"certificate_authority"`
	Version              string `json:"version"`
	OIDCIssuer           string `json:"oidc_issuer"`
	IdentityClientID     string `json:"identity_client_id"`
	Nodes                int    `json:"nodes"`
}

// Apply writes them down in the cluster's status.
func (o *ClusterOutputs) Apply(status *v1alpha1.ClusterStatus) {
	status.Endpoint = o.Endpoint
	if o.Version != "" {
		status.Version = "v" + o.Version
	}
	status.Nodes.Desired = int32(o.Nodes)
}

// CA is the certificate that the API's is signed with, as PEM.
func (o *ClusterOutputs) CA() ([]byte, error) {
	pem, err := base64.StdEncoding.DecodeString(o.CertificateAuthority)
	if err != nil || len(pem) == 0 {
		return nil, fmt.Errorf("read certificate authority of %s: it is not base64", o.Name)
	}
	return pem, nil
}
