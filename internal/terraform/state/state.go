// Package state keeps what OpenTofu knows of the infrastructure it has made: the platform's own backend, which speaks
// the protocol of tofu's `http` backend. Each stack has a history of versions, one lock, and content that is sealed
// before it reaches the store, because a state holds secrets. Backend has the rules; Handler faces tofu; a Store keeps
// bytes and knows nothing of what they mean.
package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: nothing is kept of the stack, or no such version.
	ErrNotFound = errors.New("no such state")
	// ErrConflict: the record has changed since it was loaded.
	ErrConflict = errors.New("the record has changed in between")
	// ErrInvalid: the request makes no sense.
	ErrInvalid = errors.New("invalid request")
	// ErrRefused: the request would lose something.
	ErrRefused = errors.New("refused")
)

// LockedError says who holds the lock that is in the way.
type LockedError struct{ Holder Lock }

func (e *LockedError) Error() string {
	return fmt.Sprintf("state is locked by %s for %s since %s (lock %s)", e.Holder.Who, e.Holder.Operation, e.Holder.Created.Format(time.RFC3339), e.Holder.ID)
}

// Lock is who works on a stack, as tofu describes itself.
type Lock struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// Version is one state in a stack's history.
type Version struct {
	Number    int64     `json:"number"`  // counts from 1
	Content   string    `json:"content"` // name of its content in the store
	Serial    int64     `json:"serial"`  // tofu's own count
	Lineage   string    `json:"lineage"` // tofu's name for the history that the serial counts in
	Resources int       `json:"resources"`
	SHA256    string    `json:"sha256"`
	Written   time.Time `json:"written"`
	By        string    `json:"by"` // who held the lock
}

// Record is all that is kept of a stack besides the content of its versions.
type Record struct {
	Revision string    `json:"-"` // the store's, for Save
	Lock     *Lock     `json:"lock,omitempty"`
	Versions []Version `json:"versions"` // oldest first
}

func (r *Record) last() *Version {
	if len(r.Versions) == 0 {
		return nil
	}
	return &r.Versions[len(r.Versions)-1]
}

// Store keeps records and the contents that they name.
type Store interface {
	// Load returns a stack's record, or ErrNotFound.
	Load(ctx context.Context, stack string) (*Record, error)
	// Save replaces the record if its revision is still the one that was loaded, or makes it if there is none and the
	// revision is empty; otherwise ErrConflict.
	Save(ctx context.Context, stack string, record *Record) error
	// Remove removes the record; it is no error if there is none.
	Remove(ctx context.Context, stack string) error

	// ReadContent returns a content, or ErrNotFound.
	ReadContent(ctx context.Context, stack, name string) ([]byte, error)
	// WriteContent writes a content under a name that is new.
	WriteContent(ctx context.Context, stack, name string, data []byte) error
	// RemoveContent removes a content; it is no error if there is none.
	RemoveContent(ctx context.Context, stack, name string) error
}

// Config is what a Backend is made of.
type Config struct {
	Store Store
	Keys  *Keyring
	Now   func() time.Time
	Keep  int // versions of each stack; DefaultKeep if it is 0
}

// DefaultKeep is how many versions of each stack are kept.
const DefaultKeep = 20

// Backend is the states of all stacks.
type Backend struct{ Config }

// New checks the configuration.
func New(config Config) (*Backend, error) {
	if config.Store == nil || config.Keys == nil || config.Now == nil {
		return nil, errors.New("configure state backend: store, keys and clock are needed")
	}
	if config.Keep == 0 {
		config.Keep = DefaultKeep
	}
	return &Backend{config}, nil
}

var stackName = regexp.MustCompile(`^[a-z0-9]([-._a-z0-9]{0,198}[a-z0-9])?$`)

// ValidStack reports what is wrong with a stack's name.
func ValidStack(name string) error {
	if !stackName.MatchString(name) {
		return fmt.Errorf("%w: stack %q: use lower-case letters, digits, '.', '-' and '_'", ErrInvalid, name)
	}
	return nil
}

// header is what a state says of itself; the rest is nobody's business here.
type header struct {
	Version   int               `json:"version"`
	Serial    int64             `json:"serial"`
	Lineage   string            `json:"lineage"`
	Resources []json.RawMessage `json:"resources"`
	Encrypted json.RawMessage   `json:"encrypted_data"` // where the configuration has tofu encrypt it too
}

// resources counts them; -1 is unknown.
func (h header) resources() int {
	if len(h.Encrypted) > 0 {
		return -1
	}
	return len(h.Resources)
}

// Get returns the newest state, or ErrNotFound.
func (b *Backend) Get(ctx context.Context, stack string) ([]byte, error) {
	record, err := b.load(ctx, stack)
	if err != nil {
		return nil, err
	}
	last := record.last()
	if last == nil {
		return nil, ErrNotFound
	}
	return b.open(ctx, stack, *last)
}

// GetVersion returns a state of the history.
func (b *Backend) GetVersion(ctx context.Context, stack string, number int64) ([]byte, error) {
	record, err := b.load(ctx, stack)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(record.Versions, func(v Version) bool { return v.Number == number })
	if at < 0 {
		return nil, fmt.Errorf("version %d of stack %s: %w", number, stack, ErrNotFound)
	}
	return b.open(ctx, stack, record.Versions[at])
}

// Describe returns who holds the lock, and the history.
func (b *Backend) Describe(ctx context.Context, stack string) (*Record, error) {
	return b.load(ctx, stack)
}

func (b *Backend) open(ctx context.Context, stack string, version Version) ([]byte, error) {
	sealed, err := b.Store.ReadContent(ctx, stack, version.Content)
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", stack, err)
	}
	data, err := b.Keys.Open(sealed, boundTo(stack, version.Content))
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", stack, err)
	}
	return data, nil
}

// boundTo binds a sealed content to its place: one that was put elsewhere does not open.
func boundTo(stack, content string) []byte {
	return []byte("plasmacloud state v1\x00" + stack + "\x00" + content)
}

// Put adds a version. The lock has to be held, by its ID: a writer whose lock was taken away writes nothing any more.
func (b *Backend) Put(ctx context.Context, stack, lockID string, data []byte) error {
	var head header
	if err := json.Unmarshal(data, &head); err != nil || head.Version == 0 && len(head.Encrypted) == 0 {
		return fmt.Errorf("%w: this is no state", ErrInvalid)
	}
	record, err := b.load(ctx, stack)
	if errors.Is(err, ErrNotFound) {
		record, err = new(Record), nil
	}
	if err != nil {
		return err
	}
	if record.Lock == nil || lockID == "" || record.Lock.ID != lockID {
		if record.Lock != nil {
			return &LockedError{*record.Lock}
		}
		return fmt.Errorf("%w: the lock is not held; a state is only written under its lock", ErrRefused)
	}
	return b.write(ctx, stack, record, head, data)
}

// write seals the state and adds it to the record.
func (b *Backend) write(ctx context.Context, stack string, record *Record, head header, data []byte) error {
	sum := sha256.Sum256(data)
	version := Version{
		Number: 1, Serial: head.Serial, Lineage: head.Lineage, Resources: head.resources(), SHA256: hex.EncodeToString(sum[:]),
		Written: b.Now().UTC(), By: record.Lock.Who,
	}
	if last := record.last(); last != nil {
		if last.SHA256 == version.SHA256 {
			return nil // the answer to the first try was lost
		}
		if last.Lineage != head.Lineage {
			return fmt.Errorf("%w: this is the state of something else: its lineage is %q, here it is %q", ErrRefused, head.Lineage, last.Lineage)
		}
		if head.Serial <= last.Serial {
			return fmt.Errorf("%w: a state with serial %d is kept already, this one has %d", ErrRefused, last.Serial, head.Serial)
		}
		version.Number = last.Number + 1
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("write state of %s: %w", stack, err)
	}
	version.Content = fmt.Sprintf("%06d-%s", version.Number, hex.EncodeToString(random))
	sealed, err := b.Keys.Seal(data, boundTo(stack, version.Content))
	if err != nil {
		return fmt.Errorf("write state of %s: %w", stack, err)
	}
	if err := b.Store.WriteContent(ctx, stack, version.Content, sealed); err != nil {
		return fmt.Errorf("write state of %s: %w", stack, err)
	}
	record.Versions = append(record.Versions, version)
	var old []Version
	if surplus := len(record.Versions) - b.Keep; surplus > 0 {
		old, record.Versions = slices.Clone(record.Versions[:surplus]), slices.Clone(record.Versions[surplus:])
	}
	if err := b.Store.Save(ctx, stack, record); err != nil {
		return errors.Join(fmt.Errorf("write state of %s: %w", stack, err), b.Store.RemoveContent(ctx, stack, version.Content))
	}
	for _, gone := range old {
		if err := b.Store.RemoveContent(ctx, stack, gone.Content); err != nil {
			return fmt.Errorf("remove an old state of %s: %w", stack, err)
		}
	}
	return nil
}

// Lock takes the lock. Taking it again under the same ID succeeds; otherwise *LockedError says who has it.
func (b *Backend) Lock(ctx context.Context, stack string, lock Lock) error {
	if lock.ID == "" {
		return fmt.Errorf("%w: a lock needs an ID", ErrInvalid)
	}
	record, err := b.load(ctx, stack)
	if errors.Is(err, ErrNotFound) {
		record, err = new(Record), nil
	}
	if err != nil {
		return err
	}
	if record.Lock != nil {
		if record.Lock.ID == lock.ID {
			return nil
		}
		return &LockedError{*record.Lock}
	}
	record.Lock = &lock
	err = b.Store.Save(ctx, stack, record)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	if now, loadErr := b.load(ctx, stack); loadErr == nil && now.Lock != nil { // another was faster
		return &LockedError{*now.Lock}
	}
	return err
}

// Unlock gives the lock with that ID back; it is no error if nobody holds one.
func (b *Backend) Unlock(ctx context.Context, stack, id string) error {
	if id == "" {
		return fmt.Errorf("%w: say which lock, by its ID", ErrInvalid)
	}
	record, err := b.load(ctx, stack)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if record.Lock == nil {
		return nil
	}
	if record.Lock.ID != id {
		return &LockedError{*record.Lock}
	}
	record.Lock = nil
	if len(record.Versions) == 0 {
		return b.Store.Remove(ctx, stack) // nothing was ever written
	}
	return b.Store.Save(ctx, stack, record)
}

// Restore makes a version of the history the newest one, under a lock of its own.
func (b *Backend) Restore(ctx context.Context, stack string, number int64, lock Lock) (err error) {
	data, err := b.GetVersion(ctx, stack, number)
	if err != nil {
		return err
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("restore state of %s: %w", stack, err)
	}
	if err := b.Lock(ctx, stack, lock); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Unlock(context.WithoutCancel(ctx), stack, lock.ID)) }()
	record, err := b.load(ctx, stack)
	if err != nil {
		return err
	}
	whole["serial"], err = json.Marshal(record.last().Serial + 1)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(whole); err != nil {
		return fmt.Errorf("restore state of %s: %w", stack, err)
	}
	return b.Put(ctx, stack, lock.ID, out.Bytes())
}

// Delete forgets a stack and its history. It is refused while the state holds resources, or is locked.
func (b *Backend) Delete(ctx context.Context, stack string) error {
	record, err := b.load(ctx, stack)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if record.Lock != nil {
		return &LockedError{*record.Lock}
	}
	if last := record.last(); last != nil && last.Resources != 0 {
		return fmt.Errorf("%w: the state of %s still holds resources; destroy them first", ErrRefused, stack)
	}
	return b.remove(ctx, stack, record)
}

// Abandon forgets a stack whatever it holds, and whoever has its lock: what is in the cloud stays there, and nobody here knows
// of it any more.
func (b *Backend) Abandon(ctx context.Context, stack string) error {
	record, err := b.load(ctx, stack)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.remove(ctx, stack, record)
}

func (b *Backend) remove(ctx context.Context, stack string, record *Record) error {
	if err := b.Store.Remove(ctx, stack); err != nil {
		return fmt.Errorf("delete state of %s: %w", stack, err)
	}
	for _, version := range record.Versions {
		if err := b.Store.RemoveContent(ctx, stack, version.Content); err != nil {
			return fmt.Errorf("delete state of %s: %w", stack, err)
		}
	}
	return nil
}

func (b *Backend) load(ctx context.Context, stack string) (*Record, error) {
	if err := ValidStack(stack); err != nil {
		return nil, err
	}
	return b.Store.Load(ctx, stack)
}
