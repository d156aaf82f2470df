package translate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Sizes are the machines of a cloud: the counterparts of the platform's own instance types, and the shape of the cloud's
// own names, which can be given as well.
type Sizes struct {
	Cloud  string
	Native *regexp.Regexp
	Like   string // an example of a native name
	Of     map[string]string
}

// platformSize is the shape of the platform's own names.
var platformSize = regexp.MustCompile(`^(u1|o1|cx1|m1|rt1|n1|gn1)\.`)

// Machine is the cloud's name for an instance type.
func (s Sizes) Machine(name string) (string, error) {
	if native := s.Of[name]; native != "" {
		return native, nil
	}
	if !platformSize.MatchString(name) {
		if s.Native.MatchString(name) {
			return name, nil
		}
		return "", fmt.Errorf("%s has no such machines; name one of the platform's types, such as u1.large, or one of its own, such as %s", s.Cloud, s.Like)
	}
	series, _, _ := strings.Cut(name, ".")
	var have []string
	for own := range s.Of {
		if strings.HasPrefix(own, series+".") {
			have = append(have, own)
		}
	}
	if len(have) == 0 {
		return "", fmt.Errorf("%s has no counterpart to machines of the series %s", s.Cloud, series)
	}
	slices.Sort(have)
	return "", fmt.Errorf("it has no counterpart in %s that can be a node; of the series %s there are %s", s.Cloud, series, strings.Join(have, ", "))
}

// GPU tells whether an instance type may have GPUs: of the platform's own, only one series does.
func (s Sizes) GPU(name string) bool {
	return strings.HasPrefix(name, "gn1.") || !platformSize.MatchString(name)
}

// AWS is the machines of AWS. The smallest have too little memory for a node and its add-ons.
func AWS() Sizes {
	return Sizes{
		Cloud: "AWS", Native: regexp.MustCompile(`^[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|[0-9]*xlarge|metal[-a-z0-9]*)$`), Like: "m7i.large",
		Of: map[string]string{
			"u1.medium": "t3.medium", "u1.2xmedium": "t3.medium", "u1.large": "m7i.large", "u1.xlarge": "m7i.xlarge", "u1.2xlarge": "m7i.2xlarge", "u1.4xlarge": "m7i.4xlarge", "u1.8xlarge": "m7i.8xlarge",
			"o1.medium": "t3.medium", "o1.large": "t3.large", "o1.xlarge": "t3.xlarge", "o1.2xlarge": "t3.2xlarge",
			"cx1.large": "c7i.large", "cx1.xlarge": "c7i.xlarge", "cx1.2xlarge": "c7i.2xlarge", "cx1.4xlarge": "c7i.4xlarge", "cx1.8xlarge": "c7i.8xlarge",
			"m1.large": "r7i.large", "m1.xlarge": "r7i.xlarge", "m1.2xlarge": "r7i.2xlarge", "m1.4xlarge": "r7i.4xlarge", "m1.8xlarge": "r7i.8xlarge",
			"gn1.xlarge": "g6.xlarge", "gn1.2xlarge": "g6.2xlarge", "gn1.4xlarge": "g6.4xlarge", "gn1.8xlarge": "g6.8xlarge",
		},
	}
}

// GCP is the machines of Google Cloud.
func GCP() Sizes {
	return Sizes{
		Cloud: "Google Cloud", Native: regexp.MustCompile(`^[a-z][0-9][a-z]*-[a-z0-9]+(-[a-z0-9]+)*$`), Like: "n2-standard-2",
		Of: map[string]string{
			"u1.medium": "e2-medium", "u1.2xmedium": "e2-medium", "u1.large": "n2-standard-2", "u1.xlarge": "n2-standard-4", "u1.2xlarge": "n2-standard-8", "u1.4xlarge": "n2-standard-16", "u1.8xlarge": "n2-standard-32",
			"o1.medium": "e2-medium", "o1.large": "e2-standard-2", "o1.xlarge": "e2-standard-4", "o1.2xlarge": "e2-standard-8", "o1.4xlarge": "e2-standard-16", "o1.8xlarge": "e2-standard-32",
			"cx1.xlarge": "c3-highcpu-4", "cx1.2xlarge": "c3-highcpu-8", "cx1.8xlarge": "c3-highcpu-44",
			"m1.large": "n2-highmem-2", "m1.xlarge": "n2-highmem-4", "m1.2xlarge": "n2-highmem-8", "m1.4xlarge": "n2-highmem-16", "m1.8xlarge": "n2-highmem-32",
			"gn1.xlarge": "g2-standard-4", "gn1.2xlarge": "g2-standard-8", "gn1.4xlarge": "g2-standard-16", "gn1.8xlarge": "g2-standard-32",
		},
	}
}

// Azure is the machines of Azure.
func Azure() Sizes {
	return Sizes{
		Cloud: "Azure", Native: regexp.MustCompile(`^Standard_[A-Z][A-Za-z0-9_-]+$`), Like: "Standard_D2s_v5",
		Of: map[string]string{
			"u1.medium": "Standard_B2als_v2", "u1.2xmedium": "Standard_B2als_v2", "u1.large": "Standard_D2s_v5", "u1.xlarge": "Standard_D4s_v5", "u1.2xlarge": "Standard_D8s_v5", "u1.4xlarge": "Standard_D16s_v5", "u1.8xlarge": "Standard_D32s_v5",
			"o1.medium": "Standard_B2als_v2", "o1.large": "Standard_B2as_v2", "o1.xlarge": "Standard_B4as_v2", "o1.2xlarge": "Standard_B8as_v2", "o1.4xlarge": "Standard_B16as_v2", "o1.8xlarge": "Standard_B32as_v2",
			"cx1.large": "Standard_F2s_v2", "cx1.xlarge": "Standard_F4s_v2", "cx1.2xlarge": "Standard_F8s_v2", "cx1.4xlarge": "Standard_F16s_v2", "cx1.8xlarge": "Standard_F32s_v2",
			"m1.large": "Standard_E2s_v5", "m1.xlarge": "Standard_E4s_v5", "m1.2xlarge": "Standard_E8s_v5", "m1.4xlarge": "Standard_E16s_v5", "m1.8xlarge": "Standard_E32s_v5",
			"gn1.xlarge": "Standard_NC4as_T4_v3", "gn1.2xlarge": "Standard_NC8as_T4_v3", "gn1.4xlarge": "Standard_NC16as_T4_v3",
		},
	}
}
