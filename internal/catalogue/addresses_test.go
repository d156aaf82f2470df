package catalogue

import "testing"

func TestRangesKeepClearOfTheManagementCluster(t *testing.T) {
	for name, example := range map[string]struct {
		reserved       []string
		pods, services string
	}{
		"nothing is in the way":     {nil, "192.168.0.0/16", "10.96.0.0/12"},
		"a host in an office":       {[]string{"10.42.0.0/16", "10.43.0.0/16", "192.168.1.7/32"}, "10.244.0.0/16", "10.96.0.0/12"},
		"a host in a large network": {[]string{"10.100.0.9/32", "10.42.0.0/16"}, "192.168.0.0/16", "172.20.0.0/16"},
		"everything is in the way":  {[]string{"0.0.0.0/0"}, "192.168.0.0/16", "10.96.0.0/12"},
	} {
		c := &Catalogue{Reserved: example.reserved}
		if pods, services := c.PodRange(), c.ServiceRange(); pods != example.pods || services != example.services {
			t.Errorf("%s: got %s and %s, want %s and %s", name, pods, services, example.pods, example.services)
		}
	}
	if got := (&Catalogue{Reserved: []string{"10.42.0.0/16"}}).Overlap("10.0.0.0/8"); got != "10.42.0.0/16" {
		t.Errorf("a range around a reserved one: %q", got)
	}
}
