package translate

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestNamesFitEveryCloud(t *testing.T) {
	long := strings.Repeat("very-", 8)
	for _, name := range []string{"a", "shop", long + "long"} {
		got := Name("project-a.cluster."+name, name)
		if len(got) > 37 || strings.Contains(got, "--") || got != Name("project-a.cluster."+name, name) {
			t.Errorf("Name(%s) = %s", name, got)
		}
		if got == Name("project-b.cluster."+name, name) {
			t.Errorf("two projects have the same name %s", got)
		}
	}
}

func TestVersionsAreMinors(t *testing.T) {
	path := field.NewPath("v")
	if got, errs := Minor("v1.35", path); got != "1.35" || len(errs) > 0 {
		t.Errorf("Minor = %s, %v", got, errs)
	}
	for version, want := range map[string]string{"": "name the minor version", "v1.35.4": "such as v1.35", "v1": "minor version"} {
		if _, errs := Minor(version, path); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("Minor(%q) = %v", version, errs)
		}
	}
}

func TestEverybodyOnlyIfNamed(t *testing.T) {
	for name, test := range map[string]struct {
		access   v1alpha1.Access
		platform []string
		public   bool
		cidrs    string
	}{
		"nothing known":       {v1alpha1.Access{}, nil, false, ""},
		"the platform's":      {v1alpha1.Access{}, []string{"203.0.113.7/32"}, true, "203.0.113.7/32"},
		"named":               {v1alpha1.Access{CIDRs: []string{"198.51.100.0/24"}}, []string{"203.0.113.7/32"}, true, "198.51.100.0/24 203.0.113.7/32"},
		"named and private":   {v1alpha1.Access{Public: ptr.To(false), CIDRs: []string{"198.51.100.0/24"}}, nil, false, ""},
		"everybody, as named": {v1alpha1.Access{CIDRs: []string{"0.0.0.0/0"}}, nil, true, "0.0.0.0/0"},
	} {
		public, cidrs := Access(test.access, test.platform)
		if public != test.public || strings.Join(cidrs, " ") != test.cidrs || cidrs == nil {
			t.Errorf("%s: %v %v", name, public, cidrs)
		}
	}
}

func TestSubnetsAreCutApart(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/16", "172.16.64.0/20"} {
		network := netip.MustParsePrefix(cidr)
		four, err := Cut(cidr, []string{"a", "b", "c", "d"})
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range four {
			prefix := netip.MustParsePrefix(one.CIDR)
			if !network.Contains(prefix.Addr()) || prefix.Masked() != prefix {
				t.Errorf("%s is not in %s", prefix, cidr)
			}
			for _, other := range four[:i] {
				if prefix.Overlaps(netip.MustParsePrefix(other.CIDR)) {
					t.Errorf("%s overlaps with %s", prefix, other.CIDR)
				}
			}
		}
		two, err := Cut(cidr, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range two { // more zones move nothing
			if two[i] != four[i] {
				t.Errorf("%v has become %v", two[i], four[i])
			}
		}
	}
	for cidr, zones := range map[string][]string{"10.0.0.0/24": {"a"}, "10.0.0.0/16": {}, "fd00::/56": {"a"}, "nonsense": {"a"}} {
		if _, err := Cut(cidr, zones); err == nil {
			t.Errorf("Cut(%s, %v): want an error", cidr, zones)
		}
	}
	if got, err := Address("10.96.0.0/12", 10); err != nil || got != "10.96.0.10" {
		t.Errorf("Address = %s, %v", got, err)
	}
	if _, err := Address("10.96.0.0/30", 10); err == nil {
		t.Error("Address beyond the range: want an error")
	}
}

func TestMachinesHaveCounterparts(t *testing.T) {
	for _, sizes := range []Sizes{AWS(), GCP(), Azure()} {
		if got, err := sizes.Machine("u1.large"); err != nil || !sizes.Native.MatchString(got) {
			t.Errorf("%s: %s, %v", sizes.Cloud, got, err)
		}
		if got, err := sizes.Machine(sizes.Like); err != nil || got != sizes.Like {
			t.Errorf("%s: %s, %v", sizes.Cloud, got, err)
		}
		for own, native := range sizes.Of {
			if !sizes.Native.MatchString(native) || !platformSize.MatchString(own) {
				t.Errorf("%s: %s is %s", sizes.Cloud, own, native)
			}
		}
		for name, want := range map[string]string{"u1.nano": "there are u1.", "rt1.large": "no counterpart to machines of the series rt1", "??": sizes.Like} {
			if _, err := sizes.Machine(name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Machine(%s) = %v", sizes.Cloud, name, err)
			}
		}
	}
}
