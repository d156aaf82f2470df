package catalogue

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func sample(t *testing.T) *Catalogue {
	t.Helper()
	c, err := New([]string{"v1.35.4", "v1.36.3", "v1.35.10"}, []ClusterType{
		{Name: v1alpha1.ClusterHosted, Capabilities: []Capability{CanCreate, CanKubeconfig}},
		{Name: v1alpha1.ClusterFake, Capabilities: []Capability{CanCreate}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rows reads the cells of a table as it was published.
func rows(t *testing.T, path string) [][]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n")[2:] {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), "`", ""), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestEveryPublishedInstanceTypeIsOffered(t *testing.T) {
	c := sample(t)
	published := rows(t, "testdata/instance-types.md")
	if len(published) != 48 || len(c.InstanceTypes) != len(published) {
		t.Errorf("%d types are published, %d offered", len(published), len(c.InstanceTypes))
	}
	for _, row := range published {
		have, err := c.InstanceType(row[0])
		if err != nil {
			t.Error(err)
			continue
		}
		if cpus := resource.NewQuantity(int64(have.VCPUs), resource.DecimalSI).String(); cpus != row[1] || have.Memory.String() != row[2] {
			t.Errorf("%s has %s CPUs and %s, not %s and %s", row[0], cpus, have.Memory.String(), row[1], row[2])
		}
	}
}

func TestEveryPublishedPresetIsOffered(t *testing.T) {
	c := sample(t)
	published := rows(t, "testdata/presets.md")
	if len(published) != 7 || len(c.Presets) != len(published) {
		t.Errorf("%d presets are published, %d offered", len(published), len(c.Presets))
	}
	for _, row := range published {
		have, err := c.Preset(v1alpha1.Preset(row[0]))
		if err != nil {
			t.Error(err)
			continue
		}
		if have.CPU.String() != row[1] || have.Memory.String() != row[2] {
			t.Errorf("%s is %s and %s, not %s and %s", row[0], have.CPU.String(), have.Memory.String(), row[1], row[2])
		}
	}
}

// Series state a ratio of memory to CPUs; these sizes do not keep it.
var belowRatio = map[string]string{
	"u1.nano": "512Mi", "u1.micro": "1Gi", "u1.small": "2Gi", "u1.2xmedium": "2Gi",
	"o1.nano": "512Mi", "o1.micro": "1Gi", "o1.small": "2Gi",
	"rt1.micro": "1Gi", "rt1.small": "2Gi", // its ratio holds from the medium size on
	"n1.medium": "1Gi",
}

func TestInstanceTypesKeepTheRatioOfTheirSeries(t *testing.T) {
	c := sample(t)
	for _, have := range c.InstanceTypes {
		series, err := c.SeriesOf(have)
		if err != nil {
			t.Error(err)
			continue
		}
		want := series.MemoryPerVCPU
		if exception, ok := belowRatio[have.Name]; ok {
			want = resource.MustParse(exception)
			if want.Cmp(series.MemoryPerVCPU) >= 0 {
				t.Errorf("%s is no exception", have.Name)
			}
		}
		if got := have.Memory.Value() / int64(have.VCPUs); got != want.Value() {
			t.Errorf("%s has %d bytes per CPU, not %s", have.Name, got, want.String())
		}
	}
	for name := range belowRatio {
		if _, err := c.InstanceType(name); err != nil {
			t.Error(err)
		}
	}
}

func TestSeriesHaveTheirCharacteristics(t *testing.T) {
	want := map[string]string{
		"u1":  "4Gi BurstableCPU",
		"o1":  "4Gi BurstableCPU OvercommittedMemory",
		"cx1": "2Gi Hugepages DedicatedCPU IsolatedEmulatorThreads VNUMA",
		"m1":  "8Gi Hugepages BurstableCPU",
		"rt1": "4Gi Hugepages DedicatedCPU IsolatedEmulatorThreads",
		"n1":  "2Gi Hugepages DedicatedCPU IsolatedEmulatorThreads",
		"gn1": "4Gi BurstableCPU GPU",
	}
	c := sample(t)
	for _, series := range c.Series {
		have := series.MemoryPerVCPU.String()
		for _, characteristic := range series.Characteristics {
			have += " " + string(characteristic)
		}
		if have != want[series.Name] {
			t.Errorf("%s: %s, not %s", series.Name, have, want[series.Name])
		}
		if series.Has(DedicatedCPU) == series.Has(BurstableCPU) {
			t.Errorf("%s: a CPU is either dedicated or shared", series.Name)
		}
		delete(want, series.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestPresetsOfTheAPIAreThoseOfTheCatalogue(t *testing.T) {
	schema, err := os.ReadFile("../../api/crd/plasmacloud.io_clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range sample(t).Presets {
		if !strings.Contains(string(schema), "- "+string(preset.Name)+"\n") {
			t.Errorf("the API does not take preset %s", preset.Name)
		}
	}
}

func TestRenderAndParseAreInverse(t *testing.T) {
	c := sample(t)
	content, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Render()
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != string(second) || !reflect.DeepEqual(c.KubernetesVersions, again.KubernetesVersions) {
		t.Errorf("rendered, parsed and rendered again:\n%s", second)
	}
	if _, err := Parse([]byte("laterAddition: 1\nkubernetesVersions: [v1.36.3]")); err != nil {
		t.Errorf("a newer installation's catalogue is refused: %v", err)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for content, says := range map[string]string{
		"kubernetesVersions: [v1.36]":                                   "no version in full",
		"kubernetesVersions: [latest]":                                  "no version in full",
		"kubernetesVersions: [v1.35.4, v1.36.3]":                        "newest is first",
		"clusterTypes: [{name: Fake}, {name: Fake}]":                    "there twice",
		"series: [{name: u1}, {name: u1}]":                              "there twice",
		"instanceTypes: [{name: x1.big, vcpus: 1, memory: 1Gi}]":        "of no series",
		"series: [{name: u1}]\ninstanceTypes: [{name: u1.a, vcpus: 1}]": "no memory",
		"presets: [{name: \"\", cpu: 1, memory: 1}]":                    "is empty",
		"presets: [{name: a, cpu: 0, memory: 1}]":                       "no CPU",
		"presets: {}": "parse catalogue",
	} {
		if _, err := Parse([]byte(content)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", content, err, says)
		}
	}
}

func TestResolveVersion(t *testing.T) {
	c := sample(t)
	for want, version := range map[string]string{
		"": "v1.36.3", "v1.36.3": "v1.36.3", "1.36": "v1.36.3", "v1.35": "v1.35.10", "1.35.4": "v1.35.4",
	} {
		if have, err := c.ResolveVersion(want); err != nil || have != version {
			t.Errorf("%q is %q (%v), not %s", want, have, err, version)
		}
	}
	for _, want := range []string{"v1.29.0", "v1", "latest", "v1.35.5"} {
		if _, err := c.ResolveVersion(want); err == nil || !strings.Contains(err.Error(), "it has v1.36.3, v1.35.10, v1.35.4") {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := (&Catalogue{}).ResolveVersion(""); err == nil {
		t.Error("a version came from nowhere")
	}
}

func TestUnknownNamesComeWithARemedy(t *testing.T) {
	c := sample(t)
	_, typo := c.InstanceType("u1.mediun")
	_, strange := c.InstanceType("t3.micro-burst")
	_, preset := c.Preset("huge")
	for says, err := range map[string]error{
		"did you mean u1.medium?":                                      typo,
		"the series are u1, o1, cx1, m1, rt1, n1, gn1":                 strange,
		"there are nano, micro, small, medium, large, xlarge, 2xlarge": preset,
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %q", err, says)
		}
	}
}

func TestCapabilities(t *testing.T) {
	c := sample(t)
	if !c.Can(v1alpha1.ClusterHosted, CanKubeconfig) || c.Can(v1alpha1.ClusterFake, CanKubeconfig) || c.Can(v1alpha1.ClusterEKS, CanCreate) {
		t.Error("capabilities are mixed up")
	}
}

func TestSizesOfNodesAndComponents(t *testing.T) {
	c := sample(t)
	two, half := resource.MustParse("2"), resource.MustParse("512Mi")
	size := func(r v1alpha1.Resources, err error) string {
		if err != nil {
			return err.Error()
		}
		return r.CPU.String() + " " + r.Memory.String()
	}
	for want, have := range map[string]string{
		"1 4Gi":      size(c.NodeSize(v1alpha1.NodeGroupTemplate{InstanceType: "u1.medium"})),
		"2 16Gi":     size(c.NodeSize(v1alpha1.NodeGroupTemplate{InstanceType: "m1.large"})),
		"2 4Gi":      size(c.NodeSize(v1alpha1.NodeGroupTemplate{InstanceType: "u1.medium", Resources: v1alpha1.Resources{CPU: &two}})),
		"2 512Mi":    size(c.NodeSize(v1alpha1.NodeGroupTemplate{Resources: v1alpha1.Resources{CPU: &two, Memory: &half}})),
		"500m 256Mi": size(c.ComponentSize(v1alpha1.Resources{}, "micro")),
		"1 512Mi":    size(c.ComponentSize(v1alpha1.Resources{Memory: &half}, "medium")),
	} {
		if have != want {
			t.Errorf("%s, not %s", have, want)
		}
	}
	if _, err := c.NodeSize(v1alpha1.NodeGroupTemplate{InstanceType: "none"}); err == nil {
		t.Error("an unknown type has a size")
	}
	if _, err := c.ComponentSize(v1alpha1.Resources{}, "none"); err == nil {
		t.Error("an unknown preset has a size")
	}
}
