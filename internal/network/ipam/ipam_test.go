package ipam_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

var pool = netip.MustParsePrefix("10.42.7.0/29")

func lock(t *testing.T, store *ipam.Store) *ipam.Session {
	t.Helper()
	session, err := store.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func want(id string, ports ...ipam.HostPort) ipam.Lease {
	return ipam.Lease{Key: ipam.Key{ContainerID: id, IfName: "eth0"}, Netns: "/run/netns/" + id, HostPorts: ports}
}

func allocate(t *testing.T, session *ipam.Session, id string) ipam.Lease {
	t.Helper()
	lease, _, err := session.Allocate(want(id), pool)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestAllocateTwiceGivesTheSame(t *testing.T) {
	session := lock(t, ipam.NewStore(t.TempDir()))
	first, created, err := session.Allocate(want("a"), pool)
	if err != nil || !created {
		t.Fatalf("created is %v, %v", created, err)
	}
	second, created, err := session.Allocate(want("a"), pool)
	if err != nil || created || second.Address != first.Address {
		t.Errorf("second time: %v, created is %v, %v", second, created, err)
	}
	other := want("a")
	other.IfName = "net1"
	third, _, err := session.Allocate(other, pool)
	if err != nil || third.Address == first.Address {
		t.Errorf("second interface of the pod: %v, %v", third, err)
	}
}

func TestAddressesAreNotReusedSoon(t *testing.T) {
	session := lock(t, ipam.NewStore(t.TempDir()))
	var order []string
	for i := range 8 {
		lease := allocate(t, session, fmt.Sprint(i))
		order = append(order, lease.Address.String())
		if err := session.Release(lease); err != nil {
			t.Fatal(err)
		}
	}
	// The first and the last of the pool are never given out.
	if expected := []string{
		"10.42.7.1", "10.42.7.2", "10.42.7.3", "10.42.7.4", "10.42.7.5", "10.42.7.6", "10.42.7.1", "10.42.7.2",
	}; !slices.Equal(order, expected) {
		t.Errorf("addresses were given out as %v", order)
	}
}

func TestExhaustion(t *testing.T) {
	session := lock(t, ipam.NewStore(t.TempDir()))
	var leases []ipam.Lease
	for i := range 6 {
		leases = append(leases, allocate(t, session, fmt.Sprint(i)))
	}
	if _, _, err := session.Allocate(want("late"), pool); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("got %v, want %v", err, ipam.ErrExhausted)
	}
	if err := session.Release(leases[2]); err != nil {
		t.Fatal(err)
	}
	if late := allocate(t, session, "late"); late.Address != leases[2].Address {
		t.Errorf("got %s, want the only free %s", late.Address, leases[2].Address)
	}
}

func TestReleaseOfNothingSucceeds(t *testing.T) {
	session := lock(t, ipam.NewStore(t.TempDir()))
	lease := allocate(t, session, "a")
	for range 2 {
		if err := session.Release(lease); err != nil {
			t.Error(err)
		}
	}
}

func TestHostPortsThatOverlap(t *testing.T) {
	addr := netip.MustParseAddr
	anyTCP := ipam.HostPort{Protocol: "tcp", HostPort: 80}
	oneTCP := ipam.HostPort{Protocol: "tcp", HostPort: 80, HostIP: addr("192.168.1.1")}
	for name, test := range map[string]struct {
		held, wanted ipam.HostPort
		overlap      bool
	}{
		"the same":              {anyTCP, anyTCP, true},
		"any and one address":   {anyTCP, oneTCP, true},
		"one and any address":   {oneTCP, anyTCP, true},
		"two addresses":         {oneTCP, ipam.HostPort{Protocol: "tcp", HostPort: 80, HostIP: addr("192.168.1.2")}, false},
		"another protocol":      {anyTCP, ipam.HostPort{Protocol: "udp", HostPort: 80}, false},
		"another port":          {anyTCP, ipam.HostPort{Protocol: "tcp", HostPort: 81}, false},
		"another port, address": {oneTCP, ipam.HostPort{Protocol: "tcp", HostPort: 81}, false},
	} {
		session := lock(t, ipam.NewStore(t.TempDir()))
		if _, _, err := session.Allocate(want("a", test.held), pool); err != nil {
			t.Fatal(err)
		}
		_, _, err := session.Allocate(want("b", test.wanted), pool)
		if errors.Is(err, ipam.ErrPortTaken) != test.overlap {
			t.Errorf("%s: got %v, overlap is %v", name, err, test.overlap)
		}
		// The holder itself may ask again.
		if _, _, err := session.Allocate(want("a", test.held), pool); err != nil {
			t.Errorf("%s: asking again: %v", name, err)
		}
	}
}

func TestNodeGetsAnotherCIDR(t *testing.T) {
	store := ipam.NewStore(t.TempDir())
	session := lock(t, store)
	allocate(t, session, "a")
	other := netip.MustParsePrefix("10.42.9.0/24")
	lease, _, err := session.Allocate(want("a"), other)
	if err != nil || !other.Contains(lease.Address) {
		t.Fatalf("got %v, %v", lease, err)
	}
	if leases, err := store.Leases(); err != nil || len(leases) != 1 {
		t.Errorf("leases are %v, %v", leases, err)
	}
}

func TestIPv6Pools(t *testing.T) {
	session := lock(t, ipam.NewStore(t.TempDir()))
	four := allocate(t, session, "a")
	six, created, err := session.Allocate(want("a"), netip.MustParsePrefix("fd00:42::/64"))
	if err != nil || !created || six.Address.String() != "fd00:42::1" {
		t.Fatalf("got %v, created is %v, %v", six, created, err)
	}
	if found, err := session.Find(want("a").Key); err != nil || len(found) != 2 {
		t.Errorf("leases are %v, %v; want %v and %v", found, err, four, six)
	}
}

func TestUnreadableLeaseStaysReserved(t *testing.T) {
	dir := t.TempDir()
	store := ipam.NewStore(dir)
	session := lock(t, store)
	for _, content := range []string{"", "{", `{"address":"10.42.7.9"}`} {
		if err := os.WriteFile(filepath.Join(dir, "ipam", "leases", "10.42.7.1.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		leases, err := store.Leases()
		if err != nil || len(leases) != 1 || leases[0].Address.String() != "10.42.7.1" || leases[0].Key != (ipam.Key{}) {
			t.Errorf("%q: leases are %v, %v", content, leases, err)
		}
	}
	if lease := allocate(t, session, "a"); lease.Address.String() != "10.42.7.2" {
		t.Errorf("got %s", lease.Address)
	}
}

// A writer that was killed before its rename leaves a temporary file.
func TestTracesOfAKilledWriterVanish(t *testing.T) {
	dir := t.TempDir()
	session := lock(t, ipam.NewStore(dir))
	trace := filepath.Join(dir, "ipam", "leases", ".tmp-10.42.7.1")
	if err := os.WriteFile(trace, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	allocate(t, session, "a")
	if _, err := os.Stat(trace); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary file is still there: %v", err)
	}
}

func TestLockExcludesAndGivesUp(t *testing.T) {
	store := ipam.NewStore(t.TempDir())
	held := lock(t, store)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.Lock(ctx); !errors.Is(err, ipam.ErrBusy) {
		t.Fatalf("got %v, want %v", err, ipam.ErrBusy)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	lock(t, store)
}

func TestLockAfterTheStoreWasDestroyed(t *testing.T) {
	dir := t.TempDir()
	store := ipam.NewStore(dir)
	held := lock(t, store)
	allocate(t, held, "a")
	waiting := make(chan error, 1)
	go func() {
		session, err := store.Lock(context.Background())
		if err == nil {
			_, _, err = session.Allocate(want("b"), pool)
			err = errors.Join(err, session.Close())
		}
		waiting <- err
	}()
	if err := errors.Join(held.Destroy(), held.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	leases, err := store.Leases()
	if err != nil || len(leases) != 1 || leases[0].ContainerID != "b" {
		t.Errorf("leases are %v, %v", leases, err)
	}
}

func TestStoreIsPrivate(t *testing.T) {
	dir := t.TempDir()
	lease := allocate(t, lock(t, ipam.NewStore(dir)), "a")
	for path, mode := range map[string]os.FileMode{
		"ipam": 0o700, "ipam/leases": 0o700, "ipam/leases/" + lease.Address.String() + ".json": 0o600,
	} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
