package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrExhausted means that every address of the pool is held.
	ErrExhausted = errors.New("no free address")
	// ErrPortTaken means that another lease holds a wanted host port.
	ErrPortTaken = errors.New("host port is taken")
)

// Session is the right to change a store, from Lock until Close.
type Session struct {
	store *Store
	lock  *os.File
}

// Close gives the lock back.
func (x *Session) Close() error {
	return x.lock.Close()
}

// Leases reads all leases.
func (x *Session) Leases() ([]Lease, error) {
	return x.store.Leases()
}

// Find returns the leases of a holder: one for each address family, or none.
func (x *Session) Find(key Key) ([]Lease, error) {
	leases, err := x.store.Leases()
	if err != nil {
		return nil, err
	}
	var found []Lease
	for _, lease := range leases {
		if lease.Key == key {
			found = append(found, lease)
		}
	}
	return found, nil
}

// Allocate gives want.Key an address of pool and the host ports it wants; the
// address in want is ignored. A holder that has an address of the pool keeps
// it, so that asking twice changes nothing; created tells the first time.
func (x *Session) Allocate(want Lease, pool netip.Prefix) (lease Lease, created bool, err error) {
	leases, err := x.store.Leases()
	if err != nil {
		return Lease{}, false, err
	}
	held := make(map[netip.Addr]bool, len(leases))
	var current Lease
	for _, other := range leases {
		held[other.Address] = true
		switch {
		case other.Key != want.Key:
			if err := checkPorts(want, other); err != nil {
				return Lease{}, false, err
			}
		case pool.Contains(other.Address):
			current = other
		case other.Address.Is4() == pool.Addr().Is4():
			// The node was given another CIDR since.
			if err := x.Release(other); err != nil {
				return Lease{}, false, err
			}
		}
	}
	if current.Address.IsValid() {
		want.Address = current.Address
		if want.equal(current) {
			return current, false, nil
		}
		return want, false, x.write(want)
	}
	want.Address, err = nextFree(pool, x.last(), held)
	if err != nil {
		return Lease{}, false, err
	}
	if err := x.write(want); err != nil {
		return Lease{}, false, err
	}
	// Only a hint, so a failure to write it is none of the pod's business.
	_ = os.WriteFile(x.store.lastPath(), []byte(want.Address.String()), 0o600)
	return want, true, nil
}

func checkPorts(want, other Lease) error {
	for _, p := range want.HostPorts {
		for _, q := range other.HostPorts {
			if p.Overlaps(q) {
				return fmt.Errorf("%w: %s is held by %s", ErrPortTaken, p, other.Holder())
			}
		}
	}
	return nil
}

// Release gives an address and its host ports back; releasing twice is fine.
func (x *Session) Release(lease Lease) error {
	err := os.Remove(x.store.leasePath(lease.Address))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release address: %w", err)
	}
	return nil
}

// Destroy removes the store. The session must be closed afterwards all the same.
// Whoever waits for the lock begins a new store, and may have done so already.
func (x *Session) Destroy() error {
	for _, path := range []string{x.store.leaseDir(), x.store.lastPath(), x.store.lockPath()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove address store: %w", err)
		}
	}
	err := os.Remove(x.store.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove address store: %w", err)
	}
	return nil
}

// write replaces a lease file. It does not sync it to disk: a lease outlives
// the process that wrote it in the page cache, and after a power failure there
// is no pod left that it could speak for.
func (x *Session) write(lease Lease) error {
	data, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	x.sweep()
	temp := filepath.Join(x.store.leaseDir(), tempPrefix+lease.Address.String())
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("write lease: %w", errors.Join(err, os.Remove(temp)))
	}
	if err := os.Rename(temp, x.store.leasePath(lease.Address)); err != nil {
		return fmt.Errorf("write lease: %w", err)
	}
	return nil
}

// sweep removes what writers left that were killed before they could rename.
func (x *Session) sweep() {
	entries, err := os.ReadDir(x.store.leaseDir())
	if err != nil {
		return
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			_ = os.Remove(filepath.Join(x.store.leaseDir(), entry.Name()))
		}
	}
}

// last returns the address handed out last, or the zero address.
func (x *Session) last() netip.Addr {
	data, err := os.ReadFile(x.store.lastPath())
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(string(data)))
	if err != nil {
		return netip.Addr{}
	}
	return addr
}
