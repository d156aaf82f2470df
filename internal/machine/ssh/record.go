package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// Errors of Records.
var (
	// ErrStale: the record is not as it was when it was read, or is there already.
	ErrStale = errors.New("record has changed")
	// ErrNoRecord: there is none of that name.
	ErrNoRecord = errors.New("no such record")
)

// Records is what the driver remembers, shared by all processes. Every change names the version that it is a change of,
// so that of two changes at once one is ErrStale.
type Records interface {
	Get(ctx context.Context, name string) (Record, error)
	// List returns the records of a kind.
	List(ctx context.Context, kind Kind) ([]Record, error)
	// Put writes a record, a new one where its version is empty, and returns its new version.
	Put(ctx context.Context, record Record) (version string, err error)
	// Remove removes a record of that version. One that is gone is no error.
	Remove(ctx context.Context, record Record) error
}

// Kind is what a record is about.
type Kind string

// The kinds of records.
const (
	KindMachine Kind = "ssh-machine"
	KindHost    Kind = "ssh-host"
)

// Record is a piece of memory. Its content may be secret.
type Record struct {
	Name    string // is a DNS label
	Version string
	Kind    Kind
	// Cluster that it is of, for people who look; may be empty.
	Cluster string
	Content []byte
}

// lease is a machine: what was asked for, and which host it got.
type lease struct {
	Spec    machine.Spec         `json:"spec"`
	ID      string               `json:"id"`
	Account types.NamespacedName `json:"account"`
	State   machine.State        `json:"state"`
	Message string               `json:"message,omitempty"`
	// Host is the host's ID, and Address its address; empty until one was found.
	Host    string `json:"host,omitempty"`
	Address string `json:"address,omitempty"`
	// Claimed is set before anything is written to the host: from then on it has to be cleaned.
	Claimed bool `json:"claimed,omitempty"`
	// Worker is the process that is at work on the machine, and Renewed when it last said so.
	Worker  string    `json:"worker,omitempty"`
	Renewed time.Time `json:"renewed,omitzero"`
	// RetryAt is when the next attempt is due, after Failures of them.
	RetryAt  time.Time `json:"retryAt,omitzero"`
	Failures int       `json:"failures,omitempty"`

	version string
}

// tenancy is a host: who has it, and what is known about it.
type tenancy struct {
	Host string `json:"host"`
	// HostKey is what it showed at the first contact, where that is trusted.
	HostKey string `json:"hostKey,omitempty"`
	// Holder is the machine that has the host, and HolderID its ID; empty where it is free.
	Holder   machine.Key `json:"holder,omitzero"`
	HolderID string      `json:"holderID,omitempty"`
	// Problem is why it could not be used last, at the time ProblemAt.
	Problem   string    `json:"problem,omitempty"`
	ProblemAt time.Time `json:"problemAt,omitzero"`

	version string
}

func hashed(prefix Kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(prefix) + "-" + hex.EncodeToString(sum[:10])
}

func leaseName(key machine.Key) string { return hashed(KindMachine, key.String()) }
func tenancyName(host string) string   { return hashed(KindHost, host) }

// getLease returns a machine's record; machine.ErrNotFound where there is none.
func (d *Driver) getLease(ctx context.Context, key machine.Key) (*lease, error) {
	record, err := d.records.Get(ctx, leaseName(key))
	if errors.Is(err, ErrNoRecord) {
		return nil, machine.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return readLease(record)
}

func readLease(record Record) (*lease, error) {
	l := &lease{version: record.Version}
	if err := json.Unmarshal(record.Content, l); err != nil {
		return nil, fmt.Errorf("read record %s: %w", record.Name, err)
	}
	return l, nil
}

func (d *Driver) putLease(ctx context.Context, l *lease) error {
	content, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write record of machine %s: %w", l.Spec.Key, err)
	}
	l.version, err = d.records.Put(ctx, Record{Name: leaseName(l.Spec.Key), Version: l.version, Kind: KindMachine, Cluster: l.Spec.Key.Cluster, Content: content})
	return err
}

func (d *Driver) removeLease(ctx context.Context, l *lease) error {
	return d.records.Remove(ctx, Record{Name: leaseName(l.Spec.Key), Version: l.version, Kind: KindMachine})
}

// changeLease changes a machine's record as it is now. It is machine.ErrNotFound when that is another machine by now.
func (d *Driver) changeLease(ctx context.Context, key machine.Key, id string, change func(*lease)) (*lease, error) {
	for {
		l, err := d.getLease(ctx, key)
		if err != nil {
			return nil, err
		}
		if l.ID != id {
			return nil, machine.ErrNotFound
		}
		change(l)
		if err := d.putLease(ctx, l); !errors.Is(err, ErrStale) {
			return l, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// getTenancy returns a host's record, a new one where there is none.
func (d *Driver) getTenancy(ctx context.Context, host string) (*tenancy, error) {
	record, err := d.records.Get(ctx, tenancyName(host))
	if errors.Is(err, ErrNoRecord) {
		return &tenancy{Host: host}, nil
	}
	if err != nil {
		return nil, err
	}
	t := &tenancy{version: record.Version}
	if err := json.Unmarshal(record.Content, t); err != nil {
		return nil, fmt.Errorf("read record %s: %w", record.Name, err)
	}
	return t, nil
}

func (d *Driver) putTenancy(ctx context.Context, t *tenancy) error {
	content, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write record of host %s: %w", t.Host, err)
	}
	t.version, err = d.records.Put(ctx, Record{Name: tenancyName(t.Host), Version: t.version, Kind: KindHost, Cluster: t.Holder.Cluster, Content: content})
	return err
}

// changeTenancy changes a host's record as it is now, unless the change says that there is nothing to do.
func (d *Driver) changeTenancy(ctx context.Context, host string, change func(*tenancy) bool) error {
	for {
		t, err := d.getTenancy(ctx, host)
		if err != nil || !change(t) {
			return err
		}
		if err := d.putTenancy(ctx, t); !errors.Is(err, ErrStale) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
