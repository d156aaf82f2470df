package ipam

import (
	"context"
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

// ErrBusy means that the lock was held by others until the caller's deadline.
var ErrBusy = errors.New("address store is locked")

const (
	leaseSuffix = ".json"
	tempPrefix  = ".tmp-"
)

// Store is a directory of leases. Processes share it: the plugin, once per pod
// operation, and the node daemon.
type Store struct {
	dir string
}

// NewStore names the store below a state directory; nothing is touched yet.
func NewStore(stateDir string) *Store {
	return &Store{dir: filepath.Join(stateDir, "ipam")}
}

// Leases reads all leases without the lock. Each is whole, as files are
// replaced by rename, but the set may be changing.
func (s *Store) Leases() ([]Lease, error) {
	entries, err := os.ReadDir(s.leaseDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	leases := make([]Lease, 0, len(entries))
	for _, entry := range entries {
		addr, err := netip.ParseAddr(strings.TrimSuffix(entry.Name(), leaseSuffix))
		if err != nil {
			continue
		}
		lease, err := s.read(addr)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// read returns the lease of an address. Content that does not decode is the
// trace of a power failure, as nothing is synced to disk (see write); the
// address is all that is known then.
func (s *Store) read(addr netip.Addr) (Lease, error) {
	data, err := os.ReadFile(s.leasePath(addr))
	if err != nil {
		return Lease{}, fmt.Errorf("read lease: %w", err)
	}
	var lease Lease
	if json.Unmarshal(data, &lease) != nil || lease.Address != addr {
		return Lease{Address: addr}, nil
	}
	return lease, nil
}

// Lock waits for the exclusive right to change leases and whatever is derived
// from them. The kernel drops it when the process dies, however it dies.
func (s *Store) Lock(ctx context.Context) (*Session, error) {
	for {
		file, err := s.openLock()
		if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
			continue // destroyed in between
		}
		if err != nil {
			return nil, fmt.Errorf("open address store: %w", err)
		}
		if err := flock(ctx, file); err != nil {
			return nil, err
		}
		// A Destroy that held the lock before us has removed the file we waited
		// on: holding it excludes nobody.
		if !s.isLock(file) {
			_ = file.Close()
			continue
		}
		if err := os.MkdirAll(s.leaseDir(), 0o700); err != nil {
			return nil, fmt.Errorf("open address store: %w", errors.Join(err, file.Close()))
		}
		return &Session{store: s, lock: file}, nil
	}
}

func (s *Store) openLock() (*os.File, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(s.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
}

func (s *Store) isLock(file *os.File) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.lockPath())
	return err == nil && os.SameFile(held, named)
}

// flock locks file or closes it.
func flock(ctx context.Context, file *os.File) error {
	locked := make(chan error, 1)
	go func() {
		for {
			err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				locked <- err
				return
			}
		}
	}()
	select {
	case err := <-locked:
		if err != nil {
			_ = file.Close()
			return fmt.Errorf("lock address store: %w", err)
		}
		return nil
	case <-ctx.Done():
		// The goroutine cannot be called back; what it gets, it gives away.
		go func() {
			<-locked
			_ = file.Close()
		}()
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
}

func (s *Store) leaseDir() string { return filepath.Join(s.dir, "leases") }
func (s *Store) lockPath() string { return filepath.Join(s.dir, "lock") }
func (s *Store) lastPath() string { return filepath.Join(s.dir, "last") }
func (s *Store) leasePath(addr netip.Addr) string {
	return filepath.Join(s.leaseDir(), addr.String()+leaseSuffix)
}
