package ipam

import (
	"fmt"
	"net/netip"
)

// nextFree walks the pool in a circle from the address after last, so that an
// address rests as long as possible before another pod gets it: connections
// and caches that still mean the old pod have time to go away.
func nextFree(pool netip.Prefix, last netip.Addr, held map[netip.Addr]bool) (netip.Addr, error) {
	pool = pool.Masked()
	start := pool.Addr()
	if pool.Contains(last) {
		start = last
	}
	for addr := after(pool, start); ; addr = after(pool, addr) {
		if usable(pool, addr) && !held[addr] {
			return addr, nil
		}
		if addr == start {
			return netip.Addr{}, fmt.Errorf("%w in %s", ErrExhausted, pool)
		}
	}
}

func after(pool netip.Prefix, addr netip.Addr) netip.Addr {
	next := addr.Next()
	if !pool.Contains(next) {
		return pool.Addr()
	}
	return next
}

// usable excludes the first address, which the node itself uses as the source
// of its traffic through the tunnel, and in IPv4 the last one, which would be
// taken for a broadcast address.
func usable(pool netip.Prefix, addr netip.Addr) bool {
	if addr == pool.Addr() {
		return false
	}
	return !addr.Is4() || pool.Contains(addr.Next())
}
