// Package catalogue is what an installation offers: versions of Kubernetes, types of clusters, sizes of machines and of
// control-plane components. The sizes are data (catalogue.yaml); the versions and types are what the installer found.
// The whole is kept in a ConfigMap, where the platform's own programs and its users read it.
package catalogue

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Where the catalogue is kept. Everybody who is logged in may read it.
const (
	Namespace     = "plasmacloud-system"
	ConfigMapName = "plasmacloud-catalogue"
	ConfigMapKey  = "catalogue.yaml"
)

// Characteristic is what is special about the machines of a series.
type Characteristic string

// The characteristics.
const (
	// BurstableCPU has a baseline, and may go beyond it while there is CPU to spare.
	BurstableCPU Characteristic = "BurstableCPU"
	// OvercommittedMemory is promised to more machines than there is memory for.
	OvercommittedMemory Characteristic = "OvercommittedMemory"
	// Hugepages back the memory.
	Hugepages Characteristic = "Hugepages"
	// DedicatedCPU gives every vCPU a physical core of its own.
	DedicatedCPU Characteristic = "DedicatedCPU"
	// IsolatedEmulatorThreads keeps the hypervisor's threads off the vCPUs' cores.
	IsolatedEmulatorThreads Characteristic = "IsolatedEmulatorThreads"
	// VNUMA shows the physical NUMA topology to the guest.
	VNUMA Characteristic = "VNUMA"
	// GPU machines have graphics processors.
	GPU Characteristic = "GPU"
)

// Series is instance types that are alike.
type Series struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// MemoryPerVCPU is the ratio that the series keeps, except for its smallest sizes.
	MemoryPerVCPU   resource.Quantity `json:"memoryPerVCPU"`
	Characteristics []Characteristic  `json:"characteristics"`
}

// InstanceType is a size of machines.
type InstanceType struct {
	Name   string            `json:"name"`
	VCPUs  int32             `json:"vcpus"`
	Memory resource.Quantity `json:"memory"`
}

// Series is the name of the series that the type belongs to: what is before the dot.
func (t InstanceType) Series() string {
	series, _, _ := strings.Cut(t.Name, ".")
	return series
}

// Preset is a size of control-plane components.
type Preset struct {
	Name   v1alpha1.Preset   `json:"name"`
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

// Capability is what an installation can do with clusters of a type.
type Capability string

// The capabilities.
const (
	CanCreate     Capability = "Create"
	CanScale      Capability = "Scale"
	CanUpgrade    Capability = "Upgrade"
	CanRepair     Capability = "Repair"
	CanDelete     Capability = "Delete"
	CanKubeconfig Capability = "Kubeconfig"
)

// ClusterType is a type of clusters that the installation has an engine for.
type ClusterType struct {
	Name         v1alpha1.ClusterType `json:"name"`
	Capabilities []Capability         `json:"capabilities"`
}

// Catalogue is all that an installation offers.
type Catalogue struct {
	// KubernetesVersions, newest first.
	KubernetesVersions []string       `json:"kubernetesVersions"`
	ClusterTypes       []ClusterType  `json:"clusterTypes"`
	Series             []Series       `json:"series"`
	InstanceTypes      []InstanceType `json:"instanceTypes"`
	Presets            []Preset       `json:"presets"`
	// ControlPlaneReplicas that a hosted cluster has unless it says otherwise; the API's own default where it is 0. One
	// is enough where the management cluster has one node only.
	ControlPlaneReplicas int32 `json:"controlPlaneReplicas,omitempty"`
	// Reserved are the ranges of addresses of the management cluster and its nodes. A hosted cluster, whose nodes live
	// among them, cannot have any of these for its pods and services.
	Reserved []string `json:"reserved,omitempty"`
	// Images of the platform by Kubernetes version and by what they are, such as kube-apiserver.
	Images map[string]map[string]string `json:"images,omitempty"`
}

//go:embed catalogue.yaml
var sizes []byte

// New is the catalogue of an installation that has these versions and engines, with all sizes.
func New(kubernetesVersions []string, clusterTypes []ClusterType) (*Catalogue, error) {
	c := &Catalogue{}
	if err := yaml.UnmarshalStrict(sizes, c); err != nil {
		return nil, fmt.Errorf("read sizes: %w", err)
	}
	c.KubernetesVersions = slices.Clone(kubernetesVersions)
	slices.SortFunc(c.KubernetesVersions, func(a, b string) int { return semver.Compare(b, a) })
	c.ClusterTypes = clusterTypes
	return c, c.Validate()
}

// Parse reads a catalogue as Render wrote it. Fields that it does not know are left alone: a newer installation may
// offer more than this program understands.
func Parse(content []byte) (*Catalogue, error) {
	c := &Catalogue{}
	if err := yaml.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("parse catalogue: %w", err)
	}
	return c, c.Validate()
}

// Render writes the catalogue for its ConfigMap.
func (c *Catalogue) Render() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return yaml.Marshal(c)
}

// Validate tells everything that contradicts itself.
func (c *Catalogue) Validate() error {
	var broken []error
	complain := func(format string, values ...any) { broken = append(broken, fmt.Errorf(format, values...)) }
	for i, version := range c.KubernetesVersions {
		if !semver.IsValid(version) || strings.Count(version, ".") != 2 {
			complain("kubernetesVersions: %q is no version in full", version)
		} else if i > 0 && semver.Compare(c.KubernetesVersions[i-1], version) <= 0 {
			complain("kubernetesVersions: %s comes after %s; the newest is first", version, c.KubernetesVersions[i-1])
		}
	}
	for _, reserved := range c.Reserved {
		if _, err := netip.ParsePrefix(reserved); err != nil {
			complain("reserved: %w", err)
		}
	}
	seen := map[string]bool{}
	once := func(kind, name string) {
		if name == "" || seen[kind+name] {
			complain("%s: the name %q is empty, or there twice", kind, name)
		}
		seen[kind+name] = true
	}
	for _, clusterType := range c.ClusterTypes {
		once("clusterTypes", string(clusterType.Name))
	}
	for _, series := range c.Series {
		once("series", series.Name)
	}
	for _, t := range c.InstanceTypes {
		once("instanceTypes", t.Name)
		if !seen["series"+t.Series()] {
			complain("instanceTypes: %s is of no series", t.Name)
		}
		if t.VCPUs < 1 || t.Memory.Sign() <= 0 {
			complain("instanceTypes: %s has no CPU or no memory", t.Name)
		}
	}
	for _, preset := range c.Presets {
		once("presets", string(preset.Name))
		if preset.CPU.Sign() <= 0 || preset.Memory.Sign() <= 0 {
			complain("presets: %s has no CPU or no memory", preset.Name)
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("invalid catalogue: %w", errors.Join(broken...))
	}
	return nil
}
