package catalogue

import (
	"net/netip"
	"slices"
)

// Ranges that a cluster's pods and services can have, the API's own defaults first.
var (
	podRanges     = []string{"192.168.0.0/16", "10.244.0.0/16", "172.16.0.0/16", "100.64.0.0/16"}
	serviceRanges = []string{"10.96.0.0/12", "172.20.0.0/16", "10.208.0.0/12", "100.80.0.0/16"}
)

// PodRange is a range for a hosted cluster's pods, and ServiceRange one for its services, that nobody has yet.
func (c *Catalogue) PodRange() string { return c.free(podRanges) }

// ServiceRange is described with PodRange.
func (c *Catalogue) ServiceRange() string { return c.free(serviceRanges) }

// free is the first range that is; the first of all where none is, for the API to refuse.
func (c *Catalogue) free(ranges []string) string {
	i := slices.IndexFunc(ranges, func(each string) bool { return c.Overlap(each) == "" })
	return ranges[max(i, 0)]
}

// Overlap is the reserved range that a range overlaps with; none where it is free, or no range.
func (c *Catalogue) Overlap(cidr string) string {
	own, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	for _, reserved := range c.Reserved {
		if other, err := netip.ParsePrefix(reserved); err == nil && own.Overlaps(other) {
			return reserved
		}
	}
	return ""
}
