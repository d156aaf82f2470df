package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// ResolveVersion turns what a user wrote into a version of the catalogue: nothing is the newest, a minor ("v1.35",
// "1.35") is its newest patch version, and a version in full is itself. The error lists what there is.
func (c *Catalogue) ResolveVersion(want string) (string, error) {
	if len(c.KubernetesVersions) == 0 {
		return "", fmt.Errorf("this installation has no version of Kubernetes")
	}
	if want == "" {
		return c.KubernetesVersions[0], nil
	}
	version := "v" + strings.TrimPrefix(want, "v")
	for _, have := range c.KubernetesVersions {
		if have == version || semver.MajorMinor(have) == version {
			return have, nil
		}
	}
	return "", fmt.Errorf("this installation has no Kubernetes %s; it has %s", want, strings.Join(c.KubernetesVersions, ", "))
}

// InstanceType finds a type by its name.
func (c *Catalogue) InstanceType(name string) (InstanceType, error) {
	i := slices.IndexFunc(c.InstanceTypes, func(t InstanceType) bool { return t.Name == name })
	if i < 0 {
		return InstanceType{}, fmt.Errorf("there is no instance type %q%s", name, c.meant(name))
	}
	return c.InstanceTypes[i], nil
}

// meant offers the type whose name is a slip away, or else the names of the series.
func (c *Catalogue) meant(name string) string {
	best, nearest := 3, ""
	for _, t := range c.InstanceTypes {
		if distance := levenshtein.Distance(name, t.Name, nil); distance < best {
			best, nearest = distance, t.Name
		}
	}
	if nearest != "" {
		return "; did you mean " + nearest + "?"
	}
	var series []string
	for _, s := range c.Series {
		series = append(series, s.Name)
	}
	return "; they look like u1.medium, and the series are " + strings.Join(series, ", ")
}

// SeriesOf is the series of an instance type.
func (c *Catalogue) SeriesOf(t InstanceType) (Series, error) {
	i := slices.IndexFunc(c.Series, func(s Series) bool { return s.Name == t.Series() })
	if i < 0 {
		return Series{}, fmt.Errorf("instance type %s is of no series", t.Name)
	}
	return c.Series[i], nil
}

// Has tells whether machines of the series have a characteristic.
func (s Series) Has(characteristic Characteristic) bool {
	return slices.Contains(s.Characteristics, characteristic)
}

// Preset finds a preset by its name.
func (c *Catalogue) Preset(name v1alpha1.Preset) (Preset, error) {
	var have []string
	for _, preset := range c.Presets {
		if preset.Name == name {
			return preset, nil
		}
		have = append(have, string(preset.Name))
	}
	return Preset{}, fmt.Errorf("there is no preset %q; there are %s", name, strings.Join(have, ", "))
}

// Can tells whether the installation can do something with clusters of a type.
func (c *Catalogue) Can(clusterType v1alpha1.ClusterType, capability Capability) bool {
	return slices.ContainsFunc(c.ClusterTypes, func(t ClusterType) bool {
		return t.Name == clusterType && slices.Contains(t.Capabilities, capability)
	})
}

// NodeSize is the CPU and memory of each node of a group: those that it names, and the instance type's for the rest.
func (c *Catalogue) NodeSize(group v1alpha1.NodeGroupTemplate) (v1alpha1.Resources, error) {
	size := group.Resources
	if size.CPU != nil && size.Memory != nil {
		return *size.DeepCopy(), nil
	}
	t, err := c.InstanceType(group.InstanceType)
	if err != nil {
		return v1alpha1.Resources{}, err
	}
	return fill(size, *resource.NewQuantity(int64(t.VCPUs), resource.DecimalSI), t.Memory), nil
}

// ComponentSize is the CPU and memory of a control-plane component: those that it names, and the preset's for the rest.
func (c *Catalogue) ComponentSize(resources v1alpha1.Resources, name v1alpha1.Preset) (v1alpha1.Resources, error) {
	if resources.CPU != nil && resources.Memory != nil {
		return *resources.DeepCopy(), nil
	}
	preset, err := c.Preset(name)
	if err != nil {
		return v1alpha1.Resources{}, err
	}
	return fill(resources, preset.CPU, preset.Memory), nil
}

func fill(resources v1alpha1.Resources, cpu, memory resource.Quantity) v1alpha1.Resources {
	filled := resources.DeepCopy()
	if filled.CPU == nil {
		filled.CPU = &cpu
	}
	if filled.Memory == nil {
		filled.Memory = &memory
	}
	return *filled
}

// Image is the reference of an image that clusters of a version, in full, run.
func (c *Catalogue) Image(version, name string) (string, error) {
	if ref := c.Images[version][name]; ref != "" {
		return ref, nil
	}
	return "", fmt.Errorf("this installation has no image %s for Kubernetes %s: install a release that has it with `cloud up`", name, version)
}
