package ssh

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

const patience = 3 * time.Minute

// memory is records in memory, with the rules of the API's.
type memory struct {
	mu      sync.Mutex
	records map[string]Record
	written int
}

func newMemory() *memory { return &memory{records: map[string]Record{}} }

func (m *memory) Get(ctx context.Context, name string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record, ok := m.records[name]
	if !ok {
		return record, errors.Join(ErrNoRecord, ctx.Err())
	}
	return record, ctx.Err()
}

func (m *memory) List(ctx context.Context, kind Kind) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var records []Record
	for _, record := range m.records {
		if record.Kind == kind {
			records = append(records, record)
		}
	}
	return records, ctx.Err()
}

func (m *memory) Put(ctx context.Context, record Record) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if m.records[record.Name].Version != record.Version {
		return "", ErrStale
	}
	m.written++
	record.Version = strconv.Itoa(m.written)
	m.records[record.Name] = record
	return record.Version, nil
}

func (m *memory) Remove(ctx context.Context, record Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.records[record.Name]; ok && have.Version != record.Version {
		return ErrStale
	}
	delete(m.records, record.Name)
	return ctx.Err()
}

// inventory is the hosts of the only account.
type inventory struct {
	mu    sync.Mutex
	hosts []Host
}

func (i *inventory) AccountOf(context.Context, machine.Key) (types.NamespacedName, error) {
	return types.NamespacedName{Namespace: "project-a", Name: "lab"}, nil
}

func (i *inventory) Hosts(context.Context, types.NamespacedName) ([]Host, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.hosts), nil
}

func (i *inventory) set(hosts ...Host) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hosts = hosts
}

// world is hosts, an inventory of them, and records that drivers share.
type world struct {
	*testing.T
	hosts     []*sshtest.Host
	inventory *inventory
	records   Records
}

func newWorld(t *testing.T, hosts int) *world {
	t.Helper()
	w := &world{T: t, inventory: &inventory{}, records: newMemory()}
	for range hosts {
		w.hosts = append(w.hosts, sshtest.Start(t))
	}
	var all []Host
	for _, host := range w.hosts {
		all = append(all, w.host(host))
	}
	w.inventory.set(all...)
	return w
}

func (w *world) host(host *sshtest.Host) Host {
	w.Helper()
	key, err := remote.ParseKey(host.Key)
	if err != nil {
		w.Fatal(err)
	}
	return Host{Access: remote.Host{Address: host.Address, Port: host.Port, Key: key, HostKey: host.HostKey}}
}

// driver is a driver that ends with the test.
func (w *world) driver(adjust ...func(*Config)) *Driver {
	w.Helper()
	pool := remote.NewPool(remote.Config{KeepAlive: 2 * time.Second, Backoff: 50 * time.Millisecond, Attempts: 3, HandshakeTimeout: time.Minute})
	config := Config{
		Inventory: w.inventory, Records: w.records, Pool: pool, Clock: clock.RealClock{},
		Log: slog.New(slog.NewTextHandler(w.Output(), nil)), Heartbeat: 300 * time.Millisecond, Retry: 100 * time.Millisecond,
	}
	for _, change := range adjust {
		change(&config)
	}
	driver := New(config)
	w.Cleanup(func() {
		driver.Close()
		pool.Close()
	})
	return driver
}

func newSpec(name string) machine.Spec {
	return machine.Spec{
		Key: machine.Key{Namespace: "project-a", Cluster: "dev", Name: name},
		CPU: resource.MustParse("500m"), Memory: resource.MustParse("512Mi"), Disk: resource.MustParse("1Gi"),
	}
}

// await looks until a machine is as it should be; nil is one that is gone.
func (w *world) await(driver *Driver, key machine.Key, what string, so func(*machine.Machine) bool) *machine.Machine {
	w.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		m, err := driver.Get(w.Context(), key)
		if err != nil && !errors.Is(err, machine.ErrNotFound) {
			w.Fatal(err)
		}
		if so(m) {
			return m
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s is not %s but %+v", key, what, m)
		}
	}
}

func (w *world) awaitState(driver *Driver, key machine.Key, state machine.State) *machine.Machine {
	w.Helper()
	return w.await(driver, key, string(state), func(m *machine.Machine) bool { return m != nil && m.State == state })
}

func (w *world) awaitGone(driver *Driver, key machine.Key) {
	w.Helper()
	w.await(driver, key, "gone", func(m *machine.Machine) bool { return m == nil })
}

// create makes a machine, and waits until it runs.
func (w *world) create(driver *Driver, spec machine.Spec) *machine.Machine {
	w.Helper()
	if _, err := driver.Create(w.Context(), spec); err != nil {
		w.Fatal(err)
	}
	return w.awaitState(driver, spec.Key, machine.StateRunning)
}

func (w *world) remove(driver *Driver, key machine.Key) {
	w.Helper()
	if err := driver.Delete(w.Context(), key); err != nil {
		w.Fatal(err)
	}
}
